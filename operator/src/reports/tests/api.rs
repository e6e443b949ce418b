//! An API server that keeps objects in memory, with versions and conflicts.

use http::{Method, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// What is asked, when, and how it is answered.
type Asked = (Method, String, Instant, u16);

#[derive(Clone, Default)]
pub(super) struct Api {
    objects: Arc<Mutex<BTreeMap<String, Value>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Api {
    pub(super) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                // Long enough for two replicas to ask before either is answered.
                tokio::time::sleep(Duration::from_millis(10)).await;
                let path = parts.uri.path().to_owned();
                let (status, answer) = api.answer(&parts.method, &path, &body);
                api.asked.lock().unwrap().push((parts.method, path, Instant::now(), status.as_u16()));
                let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
                *response.status_mut() = status;
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(service, "scavenger-system")
    }

    fn answer(&self, method: &Method, path: &str, body: &[u8]) -> (StatusCode, Value) {
        let mut objects = self.objects.lock().unwrap();
        let failed = |status: StatusCode, reason: &str| {
            let code = status.as_u16();
            let answer = json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason });
            (status, answer)
        };
        let sent = || serde_json::from_slice::<Value>(body).unwrap();
        let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        match (method, objects.get(path)) {
            (&Method::GET, Some(object)) => (StatusCode::OK, object.clone()),
            (&Method::GET | &Method::PUT, None) => failed(StatusCode::NOT_FOUND, "NotFound"),
            (&Method::PUT, Some(before)) => {
                let mut object = sent();
                if version(&object) != version(before) {
                    return failed(StatusCode::CONFLICT, "Conflict");
                }
                let next = version(before).unwrap().parse::<u64>().unwrap() + 1;
                object["metadata"]["resourceVersion"] = json!(next.to_string());
                objects.insert(path.to_owned(), object.clone());
                (StatusCode::OK, object)
            }
            _ => {
                let mut object = sent();
                let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
                if objects.contains_key(&path) {
                    return failed(StatusCode::CONFLICT, "AlreadyExists");
                }
                object["metadata"]["resourceVersion"] = json!("1");
                objects.insert(path, object.clone());
                (StatusCode::CREATED, object)
            }
        }
    }

    pub(super) fn get(&self, path: &str) -> Option<Value> {
        self.objects.lock().unwrap().get(path).cloned()
    }

    pub(super) fn put(&self, path: &str, mut object: Value) {
        object["metadata"]["resourceVersion"] = json!("1");
        self.objects.lock().unwrap().insert(path.to_owned(), object);
    }

    pub(super) fn remove(&self, path: &str) {
        self.objects.lock().unwrap().remove(path);
    }

    /// Writes and how they were answered.
    pub(super) fn writes(&self) -> Vec<(String, u16)> {
        let asked = self.asked.lock().unwrap();
        let writes = asked.iter().filter(|(method, ..)| *method != Method::GET);
        writes.map(|(method, path, _, status)| (format!("{method} {path}"), *status)).collect()
    }

    /// When each request was answered.
    pub(super) fn times(&self) -> Vec<Instant> {
        self.asked.lock().unwrap().iter().map(|(_, _, at, _)| *at).collect()
    }
}
