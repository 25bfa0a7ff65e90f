#!/bin/sh
# Becomes the program of the same name; see kavka-run.
self=$0
[ -L "$self" ] && self=$(readlink -f -- "$self")
case $self in */*) bin=${self%/*} ;; *) bin=. ;; esac
. "$bin/kavka-run"
