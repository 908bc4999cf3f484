//! The routes, and the status of each outcome. This module does not depend on the backend.
//!
//! | request                     | answer                                                       |
//! |-----------------------------|--------------------------------------------------------------|
//! | `POST /sessions/{id}/items` | `{"product": 7, "count": 2}` goes into the basket; its state |
//! | `GET /sessions/{id}`        | the state of the basket                                      |
//! | `GET /products/{number}`    | the product                                                  |
//! | `GET /metrics`              | Prometheus's text                                            |
//! | `GET /health`               | 200 while the service runs                                   |
//!
//! | fault                                                     | status                            |
//! |-----------------------------------------------------------|-----------------------------------|
//! | no such session, or product, or path                      | 404                               |
//! | no JSON as above, or no valid name of a session           | 400                               |
//! | the body is larger than `--max-body`                      | 413                               |
//! | the body is not complete in ten seconds                   | 408                               |
//! | too many requests of this session wait                    | 429, with `Retry-After`           |
//! | too many requests in flight, or sessions                  | 503, with `Retry-After`           |
//! | it did not get its turn, or the product, in time          | 503, with `Retry-After`           |
//! | it comes while the service ends                           | 503, with `Retry-After`           |
//! | its turn panicked                                         | 500: the session begins anew      |
//!
//! - H1: no more than `--in-flight` requests are processed; a further one is refused at once.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::extract::{DefaultBodyLimit, FromRequest, Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::backend::Backend;
use crate::metrics::Metrics;
use crate::shop::{Ask, Id, Refused, Shop, Sku};

/// The maximum length of a session's name, in bytes.
const NAME: usize = 64;
/// The maximum count of a product in one request.
const PIECES: u32 = 1000;
/// The maximum time of a body.
const BODY_TIME: Duration = Duration::from_secs(10);

/// The state that all handlers share.
pub(crate) struct App<B> {
    pub(crate) backend: B,
    pub(crate) shop: Arc<Shop>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) in_flight: Semaphore,
    pub(crate) max_body: usize,
}

/// The reason of a failed request.
enum Failure {
    Bad(StatusCode, String),
    TooMany,
    Refused(Refused),
}

#[derive(Deserialize)]
struct Item {
    product: Sku,
    #[serde(default = "one")]
    count: u32,
}

fn one() -> u32 {
    1
}

pub(crate) fn router<B: Backend>(app: Arc<App<B>>) -> Router {
    Router::new()
        .route("/sessions/{id}/items", post(add::<B>))
        .route("/sessions/{id}", get(look::<B>))
        .route("/products/{number}", get(product::<B>))
        .layer(DefaultBodyLimit::max(app.max_body))
        .layer(middleware::from_fn_with_state(app.clone(), admit::<B>))
        .route("/metrics", get(metrics::<B>))
        .route("/health", get(async || "ok\n"))
        .fallback(async || bad(StatusCode::NOT_FOUND, "there is nothing at this path"))
        .with_state(app)
}

/// Counts a request, and admits it if there is room (H1).
async fn admit<B: Backend>(
    State(app): State<Arc<App<B>>>,
    request: Request,
    next: Next,
) -> Response {
    let in_flight = app.metrics.request();
    let response = match app.in_flight.try_acquire() {
        Ok(_permit) => next.run(request).await,
        Err(_) => Failure::TooMany.into_response(),
    };
    in_flight.answered(response.status());
    response
}

async fn metrics<B: Backend>(State(app): State<Arc<App<B>>>) -> impl IntoResponse {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], app.metrics.text(&app.shop))
}

async fn add<B: Backend>(
    State(app): State<Arc<App<B>>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let id = session(&id)?;
    // A body that is announced as too long is not read.
    if request.body().size_hint().lower() > app.max_body as u64 {
        return Err(bad(StatusCode::PAYLOAD_TOO_LARGE, "the length is beyond the limit"));
    }
    let body = timeout(BODY_TIME, Bytes::from_request(request, &())).await;
    let body = body.map_err(|_| bad(StatusCode::REQUEST_TIMEOUT, "the body does not come"))?;
    let body = body.map_err(|error| bad(error.status(), &error.body_text()))?;
    let item: Item = serde_json::from_slice(&body)
        .map_err(|error| bad(StatusCode::BAD_REQUEST, &error.to_string()))?;
    if item.count == 0 || item.count > PIECES {
        return Err(bad(StatusCode::BAD_REQUEST, "count is 1 to 1000"));
    }
    let product = app.backend.product(item.product).await?;
    let view = app.backend.ask(id, Ask::Add { product, count: item.count }).await?;
    Ok(Json(view).into_response())
}

async fn look<B: Backend>(
    State(app): State<Arc<App<B>>>,
    Path(id): Path<String>,
) -> Result<Response, Failure> {
    let view = app.backend.ask(session(&id)?, Ask::Look).await?;
    Ok(Json(view).into_response())
}

async fn product<B: Backend>(
    State(app): State<Arc<App<B>>>,
    Path(number): Path<String>,
) -> Result<Response, Failure> {
    let number = number.parse();
    let number = number.map_err(|_| bad(StatusCode::BAD_REQUEST, "a product is a number"))?;
    Ok(Json(&*app.backend.product(number).await?).into_response())
}

fn session(name: &str) -> Result<Id, Failure> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME || !name.chars().all(plain) {
        let why = "a session is called by 1 to 64 letters, digits, - and _";
        return Err(bad(StatusCode::BAD_REQUEST, why));
    }
    Ok(name.into())
}

fn bad(status: StatusCode, why: &str) -> Failure {
    Failure::Bad(status, why.into())
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Failure::Refused(refused)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        let (status, error, retry) = match &self {
            Failure::Bad(status, why) => (*status, why.as_str(), None),
            Failure::TooMany => (unavailable, "too many requests are in flight", Some(1)),
            Failure::Refused(refused) => match refused {
                Refused::NoSession => (StatusCode::NOT_FOUND, "there is no such session", None),
                Refused::NoProduct => (StatusCode::NOT_FOUND, "there is no such product", None),
                Refused::Busy => {
                    let why = "too many requests of this session wait";
                    (StatusCode::TOO_MANY_REQUESTS, why, Some(1))
                }
                Refused::Full => (unavailable, "there are as many sessions as may be", Some(10)),
                Refused::TimedOut => (unavailable, "its turn did not come in time", Some(1)),
                Refused::Ending => (unavailable, "the service ends", Some(5)),
                Refused::Broken => {
                    let why = "this request broke its session, which begins anew";
                    (StatusCode::INTERNAL_SERVER_ERROR, why, None)
                }
            },
        };
        let mut response = (status, Json(json!({ "error": error }))).into_response();
        if let Some(seconds) = retry {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
