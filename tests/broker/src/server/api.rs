//! HTTP for the control plane: everything under `/v1/`.

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use futures_util::StreamExt;
use nolag_core::Token;
use tokio::sync::{mpsc, oneshot};

use super::{state_file::StateFile, task::Call};
use crate::{ApiRequest, ApiResponse, control::MAX_BODY_BYTES};

/// Bytes of a body that is too large which are still read, so that the client comes to see the answer.
const MAX_DISCARDED_BYTES: usize = 64 << 20;

/// Where requests are handed in.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    calls: mpsc::UnboundedSender<Call>,
    file: Option<StateFile>,
}

impl Desk {
    pub(super) fn new(calls: mpsc::UnboundedSender<Call>, file: Option<StateFile>) -> Self {
        Self { calls, file }
    }
}

/// Answers one request.
pub(super) async fn answer(
    State(desk): State<Desk>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    // A body that breaks off is no request; nobody is there to be told.
    let Some(body) = read(body).await else { return StatusCode::BAD_REQUEST.into_response() };
    let authorization =
        headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).map(Token::new);
    let (result, reply) = oneshot::channel();
    let Desk { calls, file } = desk;
    let call: Call = Box::new(move |core, now| {
        let request = ApiRequest {
            method: method.as_str(),
            path: uri.path(),
            query: uri.query().unwrap_or_default(),
            authorization: authorization.as_ref().map(Token::expose),
            body: &body,
        };
        let response = match &file {
            Some(file) => core.handle_api_saved(now, &request, Some(&|text| file.save(text))),
            None => core.handle_api(now, &request),
        };
        tracing::debug!("{request:?}: {}", response.status);
        // Fails only when the client is gone.
        Box::new(move || drop(result.send(response)))
    });
    let answered = match calls.send(call) {
        Ok(()) => reply.await.ok(),
        Err(_) => None,
    };
    answered.map_or_else(|| StatusCode::SERVICE_UNAVAILABLE.into_response(), into_response)
}

/// Reads a body. Of one that is too large only as much is kept as shows it.
async fn read(body: Body) -> Option<Bytes> {
    let mut stream = body.into_data_stream();
    let (mut kept, mut discarded) = (Vec::new(), 0);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.ok()?;
        if kept.len() <= MAX_BODY_BYTES {
            let room = MAX_BODY_BYTES + 1 - kept.len();
            kept.extend_from_slice(&chunk[..chunk.len().min(room)]);
        } else {
            discarded += chunk.len();
        }
        if discarded > MAX_DISCARDED_BYTES {
            break;
        }
    }
    Some(kept.into())
}

fn into_response(answer: ApiResponse) -> Response {
    let mut response = match answer.body.is_empty() {
        true => StatusCode::OK.into_response(),
        false => ([(header::CONTENT_TYPE, "application/json")], answer.body).into_response(),
    };
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}
