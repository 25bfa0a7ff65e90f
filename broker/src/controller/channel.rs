//! The way to the active controller, on this node or another, for everybody in the broker who needs a decision.
//! Not here: deciding (shell.rs), connections (remote.rs), waiting until the decision is visible (metadata/cache.rs).
//! Cheap to share; a request runs in the task of who sends it.
//! Kafka: NodeToControllerChannelManager, ForwardingManager; KIP-590.

use super::refusal::refuse;
use super::remote::{RemoteController, RemoteError};
use super::shell::{ControllerError, ControllerHandle};
use kavka_client::BrokerAddress;
use kavka_common::Offset;
use kavka_protocol::{AnyRequest, AnyResponse, ApiKey, ErrorCode, Request};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long one turn asks another node before this node's own controller is asked again.
const TURN: Duration = Duration::from_millis(500);
/// Pause while nobody is known to lead.
const PAUSE: Duration = Duration::from_millis(20);

/// The highest version that both sides know.
pub const HIGHEST_VERSION: i16 = -1;

/// Before the first offset: every reader of the metadata has seen that.
const NOTHING_DECIDED: Offset = -1;

/// No answer.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Local(#[from] ControllerError),
    #[error("the controller answered {} with another response", .0.name())]
    WrongResponse(ApiKey),
}

impl ChannelError {
    /// What a client is told.
    pub fn error_code(&self) -> ErrorCode {
        match self {
            ChannelError::Remote(RemoteError::NotForwarded(_))
            | ChannelError::Local(ControllerError::Unsupported(_)) => ErrorCode::UnsupportedVersion,
            ChannelError::Remote(RemoteError::Refused(_)) | ChannelError::WrongResponse(_) => {
                ErrorCode::UnknownServerError
            }
            ChannelError::Remote(_) | ChannelError::Local(ControllerError::Stopped) => {
                ErrorCode::RequestTimedOut
            }
            ChannelError::Local(ControllerError::NotActive(_) | ControllerError::Lost) => {
                ErrorCode::NotController
            }
        }
    }
}

/// An answer. `last_offset` is known when the controller is on this node.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerAnswer {
    pub response: AnyResponse,
    /// How far the metadata must be read to see the effect.
    pub last_offset: Option<Offset>,
}

/// Keeps the way to the active controller up to date while a request waits on it.
async fn tell_of_leaders(local: &ControllerHandle, remote: &RemoteController) -> Infallible {
    loop {
        tokio::time::sleep(PAUSE).await;
        if let Some((host, port)) = local.leader_address() {
            remote.set_active(BrokerAddress::new(host, port));
        }
    }
}

/// The way to the active controller.
pub struct ControllerChannel {
    local: Option<ControllerHandle>,
    remote: Option<Arc<RemoteController>>,
    timeout: Duration,
}

impl ControllerChannel {
    /// At least one of the two. `timeout` is for requests that do not say how long they may take.
    pub fn new(
        local: Option<ControllerHandle>,
        remote: Option<Arc<RemoteController>>,
        timeout: Duration,
    ) -> Self {
        assert!(local.is_some() || remote.is_some());
        ControllerChannel {
            local,
            remote,
            timeout,
        }
    }

    pub fn local(&self) -> Option<&ControllerHandle> {
        self.local.as_ref()
    }

    pub fn remote(&self) -> Option<&Arc<RemoteController>> {
        self.remote.as_ref()
    }

    /// Has a request decided by the active controller.
    pub async fn send(
        &self,
        api_version: i16,
        request: AnyRequest,
    ) -> Result<ControllerAnswer, ChannelError> {
        let timeout = self.timeout;
        self.send_within(api_version, request, timeout).await
    }

    /// As `send`, with the caller's patience.
    pub async fn send_within(
        &self,
        api_version: i16,
        request: AnyRequest,
        timeout: Duration,
    ) -> Result<ControllerAnswer, ChannelError> {
        let Some(local) = &self.local else {
            return self.send_remote(api_version, &request, timeout).await;
        };
        let local_version = match api_version {
            HIGHEST_VERSION => request
                .api_key()
                .versions()
                .map_or(0, |versions| *versions.end()),
            version => version,
        };
        let deadline = Instant::now() + timeout;
        loop {
            match local.handle(local_version, request.clone()).await {
                Ok(handled) => {
                    return Ok(ControllerAnswer {
                        response: handled.response,
                        last_offset: Some(handled.last_offset),
                    });
                }
                Err(ControllerError::NotActive(_)) if Instant::now() < deadline => {}
                Err(error) => return Err(error.into()),
            }
            // Another node decides, or nobody yet, or this node in a moment: look around in short turns.
            match (&self.remote, local.leader_address()) {
                (Some(remote), Some((host, port))) => {
                    remote.set_active(BrokerAddress::new(host, port));
                    let answer = tokio::select! {
                        biased;
                        answer = remote.send(api_version, &request, TURN) => answer,
                        // The quorum's own task learns of a new leader first.
                        never = tell_of_leaders(local, remote) => match never {},
                    };
                    match answer {
                        Ok(response) => {
                            return Ok(ControllerAnswer {
                                response,
                                last_offset: None,
                            });
                        }
                        Err(RemoteError::Unreachable { .. } | RemoteError::NoLeader { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                // Nobody tells this node who leads: it has to ask.
                (Some(remote), None) if !local.is_voter() => {
                    match remote.send(api_version, &request, TURN).await {
                        Ok(response) => {
                            return Ok(ControllerAnswer {
                                response,
                                last_offset: None,
                            });
                        }
                        Err(RemoteError::Unreachable { .. } | RemoteError::NoLeader { .. })
                            if Instant::now() < deadline => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                (_, None) | (None, _) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    async fn send_remote(
        &self,
        api_version: i16,
        request: &AnyRequest,
        timeout: Duration,
    ) -> Result<ControllerAnswer, ChannelError> {
        let remote = self.remote.as_ref().expect("checked by `new`");
        Ok(ControllerAnswer {
            response: remote.send(api_version, request, timeout).await?,
            last_offset: None,
        })
    }

    /// As `send`, with the answer in every case: a failure becomes the error codes of the API's response. Only for APIs
    /// that passed [`assert_refusable`](super::assert_refusable).
    ///
    /// A client waits as long for this broker as this broker does for the controller (30 s by default): it is answered
    /// somewhat earlier, so that it can tell what is wrong.
    pub async fn send_or_refuse(&self, api_version: i16, request: AnyRequest) -> ControllerAnswer {
        let timeout = self.timeout - self.timeout / 6;
        match self
            .send_within(api_version, request.clone(), timeout)
            .await
        {
            Ok(answer) => answer,
            Err(error) => ControllerAnswer {
                response: refuse(&request, error.error_code(), Some(&error.to_string()))
                    .expect("asserted when the table of APIs was made"),
                // Nothing was decided, so there is nothing to wait for.
                last_offset: Some(NOTHING_DECIDED),
            },
        }
    }

    /// A request of this broker's own, in the highest version.
    pub async fn call<R>(&self, request: R) -> Result<R::Response, ChannelError>
    where
        R: Request + Into<AnyRequest>,
        R::Response: TryFrom<AnyResponse>,
    {
        let answer = self.send(HIGHEST_VERSION, request.into()).await?;
        R::Response::try_from(answer.response).map_err(|_| ChannelError::WrongResponse(R::API_KEY))
    }
}
