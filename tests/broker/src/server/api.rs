//! HTTP for the control plane: everything under `/v1/`.

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use futures_util::StreamExt;
use nolag_core::Token;
use tokio::sync::mpsc;

use super::{
    saver::Notebook,
    task::{Call, call},
};
use crate::{ApiRequest, ApiResponse, control::MAX_BODY_BYTES};

/// Bytes of a body that is too large which are still read, so that the client comes to see the answer.
const MAX_DISCARDED_BYTES: usize = 64 << 20;

/// Where requests are handed in.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    calls: mpsc::UnboundedSender<Call>,
    /// Without it, nothing is saved.
    notebook: Option<Notebook>,
}

impl Desk {
    pub(super) fn new(calls: mpsc::UnboundedSender<Call>, notebook: Option<Notebook>) -> Self {
        Self { calls, notebook }
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
    let Desk { calls, notebook } = desk;
    let handled = call(&calls, move |core, now| {
        let request = ApiRequest {
            method: method.as_str(),
            path: uri.path(),
            query: uri.query().unwrap_or_default(),
            authorization: authorization.as_ref().map(Token::expose),
            body: &body,
        };
        let before = core.control_revision();
        let response = core.handle_api(now, &request);
        tracing::debug!("{request:?}: {}", response.status);
        let revision = core.control_revision();
        let saved = notebook.filter(|_| revision != before).map(|notebook| notebook.note(revision));
        (response, saved)
    });
    let answered = match handled.await {
        // A change is in force by now. Who made it is told once it lasts.
        Some((response, Some(saved))) => match saved.await {
            Ok(true) => Some(response),
            Ok(false) | Err(_) => call(&calls, |core, _| core.refuse_unsaved()).await,
        },
        handled => handled.map(|(response, _)| response),
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
