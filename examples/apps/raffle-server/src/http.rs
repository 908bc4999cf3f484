//! The routes, and the status of each outcome.
//!
//! | request              | answer                                                          |
//! |----------------------|-----------------------------------------------------------------|
//! | `POST /applications` | the applicant's name is the body, in UTF-8; see below           |
//! | `GET /status`        | the state of the raffle, as JSON                                |
//! | `GET /`              | a page that shows it live                                       |
//! | `GET /events`        | the events of the page: server-sent, each with the whole JSON   |
//! | `GET /metrics`       | metrics in Prometheus's text format                             |
//!
//! | an application                            | status                                     |
//! |-------------------------------------------|--------------------------------------------|
//! | is admitted, durably                      | 201, with the place                        |
//! | was admitted before                       | 409, with the place                        |
//! | comes too late: all places are taken      | 410                                        |
//! | would not get its turn in time            | 503, with `Retry-After`                    |
//! | comes while the server ends               | 503, with `Retry-After`                    |
//! | did not get its turn in time              | 504: it is not admitted                    |
//! | was not entered: the ledger failed        | 500: it is not admitted                    |
//! | has an unknown outcome                    | 500, `unknown`: apply again to find out    |
//! | has no valid name (empty, long, no UTF-8) | 400                                        |
//! | is longer than `--max-body`               | 413                                        |
//! | is not complete in ten seconds            | 408                                        |
//!
//! - H1: an application whose connection is dropped is withdrawn, unless its turn has begun.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, body};
use futures_util::{Stream, stream};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::ledger::Who;
use crate::metrics::Metrics;
use crate::modes::{Outcome, Raffle};
use crate::page::{self, Recent};

/// The maximum length of a name, in bytes.
const NAME: usize = 200;
/// The maximum time of a body.
const BODY_TIME: Duration = Duration::from_secs(10);
/// The policy of the page: it may load only its own parts, and its events.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      connect-src 'self'; img-src data:";

/// The state that all handlers share.
pub(crate) struct App {
    pub(crate) raffle: Raffle,
    pub(crate) mode: String,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) recent: Recent,
    pub(crate) max_body: usize,
    pub(crate) live: watch::Receiver<Arc<str>>,
}

pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(show_page))
        .route("/applications", post(apply))
        .route("/status", get(async |State(app): State<Arc<App>>| json_of(page::status(&app))))
        .route("/events", get(events))
        .route("/metrics", get(metrics))
        .layer(DefaultBodyLimit::max(app.max_body))
        .layer(middleware::from_fn_with_state(app.clone(), count))
        .with_state(app)
}

async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    app.metrics.request();
    next.run(request).await
}

async fn show_page() -> impl IntoResponse {
    ([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(page::HTML))
}

async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    let text = app.metrics.text(app.raffle.standing());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

/// Streams the current state, and each that follows; the stream ends with them (page P1).
async fn events(State(app): State<Arc<App>>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut live = app.live.clone();
    live.mark_changed();
    Sse::new(stream::unfold(live, async |mut live| {
        live.changed().await.ok()?;
        let event = Event::default().data(live.borrow_and_update().as_ref());
        Some((Ok(event), live))
    }))
    .keep_alive(KeepAlive::default())
}

fn json_of(value: Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body::Body::from(value.to_string()))
        .into_response()
}

fn answer(status: StatusCode, value: Value) -> Response {
    (status, json_of(value)).into_response()
}

fn bad(status: StatusCode, why: &str) -> Response {
    answer(status, json!({"outcome": "bad", "why": why}))
}

async fn apply(State(app): State<Arc<App>>, request: Request) -> Response {
    // A body that is announced as too long is not read.
    if request.body().size_hint().lower() > app.max_body as u64 {
        return bad(StatusCode::PAYLOAD_TOO_LARGE, "the length is beyond the limit");
    }
    let who = match timeout(BODY_TIME, Bytes::from_request(request, &())).await {
        Ok(Ok(body)) => match name(&body) {
            Ok(who) => who,
            Err(why) => return bad(StatusCode::BAD_REQUEST, why),
        },
        Ok(Err(rejection)) => return bad(rejection.status(), &rejection.body_text()),
        Err(_) => return bad(StatusCode::REQUEST_TIMEOUT, "the body does not come"),
    };
    let in_flight = app.metrics.application();
    let outcome = app.raffle.apply(who.clone()).await;
    in_flight.answered(&outcome);
    if let Outcome::Admitted { place } = outcome {
        app.recent.add(place, who);
    }
    told(&outcome)
}

/// Checks the name of an applicant.
fn name(body: &[u8]) -> Result<Who, &'static str> {
    let name = std::str::from_utf8(body).map_err(|_| "the name is not UTF-8")?.trim();
    if name.is_empty() {
        Err("the body is the name of the applicant, and it is empty")
    } else if name.len() > NAME {
        Err("the name is longer than 200 bytes")
    } else if name.chars().any(char::is_control) {
        Err("the name has control characters")
    } else {
        Ok(name.into())
    }
}

fn told(outcome: &Outcome) -> Response {
    let (status, mut value) = match outcome {
        Outcome::Admitted { place } => (StatusCode::CREATED, json!({"place": place})),
        Outcome::Duplicate { place } => (StatusCode::CONFLICT, json!({"place": place})),
        Outcome::Closed { seats } => (StatusCode::GONE, json!({"seats": seats})),
        Outcome::Busy { expected } => {
            (StatusCode::SERVICE_UNAVAILABLE, json!({"expected_ms": expected.as_millis() as u64}))
        }
        Outcome::TimedOut { waited } => {
            (StatusCode::GATEWAY_TIMEOUT, json!({"waited_ms": waited.as_millis() as u64}))
        }
        Outcome::Failed { why } | Outcome::Unknown { why } => {
            (StatusCode::INTERNAL_SERVER_ERROR, json!({"why": why}))
        }
        Outcome::Stopping => (StatusCode::SERVICE_UNAVAILABLE, json!({})),
    };
    value["outcome"] = Outcome::NAMES[outcome.number()].into();
    let mut response = answer(status, value);
    let retry: Option<(HeaderName, u64)> = match outcome {
        // The expected wait is the time in which the others will have been served.
        Outcome::Busy { expected } => Some((header::RETRY_AFTER, expected.as_secs().max(1))),
        Outcome::Stopping => Some((header::RETRY_AFTER, 5)),
        _ => None,
    };
    if let Some((name, seconds)) = retry {
        response.headers_mut().insert(name, HeaderValue::from(seconds));
    }
    response
}
