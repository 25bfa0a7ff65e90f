# Sourced by the cases beside it: the reference kit, our programs, brokers on ports of their own, results, cleaning up.

here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
root=$(cd "$here/../.." && pwd)
reference=${KAVKA_REFERENCE:-$root/../shared/reference}
work=$(mktemp -d "${TMPDIR:-/tmp}/kavka-interop.XXXXXX")
clusters=()
failed=0

# The programs that bin/ becomes: what cargo built last, unless KAVKA_BIN says otherwise.
target=${CARGO_TARGET_DIR:-$root/target}
if [ -z "${KAVKA_BIN:-}" ]; then
    if [ -x "$target/release/kafka-server-start" ]; then KAVKA_BIN=$target/release; else KAVKA_BIN=$target/debug; fi
fi
export KAVKA_BIN

ok() { echo "ok - $*"; }
not_ok() { echo "not ok - $*"; failed=1; }
skip() { echo "ok - $1 # skip $2"; }

# is NAME EXPECTED ACTUAL: compares two texts.
is() {
    if [ "$2" = "$3" ]; then ok "$1"; else
        not_ok "$1"
        diff <(printf '%s\n' "$2") <(printf '%s\n' "$3") | head -10 | sed 's/^/#   /'
    fi
}

# same NAME FILE FILE: compares two files byte by byte.
same() {
    if cmp -s "$2" "$3"; then ok "$1"; else not_ok "$1: $(cmp "$2" "$3" 2>&1 | head -1)"; fi
}

# attempt NAME COMMAND...: the command must succeed; its output is shown when it does not.
attempt() {
    local name=$1 log
    shift
    log=$(mktemp "$work/attempt.XXXXXX")
    if "$@" >"$log" 2>&1; then ok "$name"; else
        not_ok "$name"
        tail -15 "$log" | sed 's/^/#   /'
    fi
}

apache() { "$reference/kafka/kafka" "$@"; }
apache_zk() { "$reference/kafka-zk/kafka" "$@"; }

# Ends the case with skips when the machine cannot run Apache's programs.
need_apache() {
    if ! command -v java >/dev/null || ! [ -x "$reference/kafka/kafka" ]; then
        skip "$1" "no JVM or no reference kit"
        exit 0
    fi
    apache fetch >"$work/fetch.log" 2>&1 || { not_ok "fetching Apache Kafka"; tail -5 "$work/fetch.log"; exit 1; }
}

# wait_group BOOTSTRAP GROUP MEMBERS: until so many members have their assignment, at most a minute.
wait_group() {
    local deadline=$((SECONDS + 60))
    until "$root/bin/kafka-consumer-groups.sh" --bootstrap-server "$1" --describe --group "$2" --state 2>/dev/null |
        grep -qE "Stable +$3\$"; do
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.25
    done
}

# start_kavka NAME PORT, start_apache NAME PORT: one broker in $work/NAME; stopped at the end of the case.
start_kavka() {
    clusters+=("$root/tests/cli/cluster $work/$1")
    KAFKA_REF_PORT=$2 "$root/tests/cli/cluster" start-cluster 1 "$work/$1" >"$work/$1.start" 2>&1 || {
        not_ok "starting our broker"
        cat "$work/$1.start"
        exit 1
    }
}
start_apache() {
    clusters+=("$reference/kafka/kafka $work/$1")
    KAFKA_REF_PORT=$2 apache start-cluster 1 "$work/$1" >"$work/$1.start" 2>&1 || {
        not_ok "starting Apache's broker"
        cat "$work/$1.start"
        exit 1
    }
}

finish() {
    local cluster
    for cluster in "${clusters[@]}"; do
        ${cluster% *} stop-cluster "${cluster##* }" >/dev/null 2>&1
    done
    if [ "$failed" -eq 0 ] || [ -z "${KAVKA_KEEP:-}" ]; then rm -rf "$work"; else echo "# kept: $work"; fi
    exit "$failed"
}
trap finish EXIT
trap 'exit 130' INT TERM
