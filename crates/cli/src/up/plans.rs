//! Serves plans on the API server.

use ferroplane_apiserver::listeners::HttpService;
use ferroplane_apiserver::{EndpointPath, EndpointRequest, InProcessEndpoint, Server};
use ferroplane_client::ApiClient;
use ferroplane_controllers::Planner;
use http::{HeaderValue, Method, Response, header};

use crate::plans::PATH;
use crate::plans::serve::answer;

/// Answer those who may `post` there. What they propose is tried out as them, and they are shown what they may read.
pub(super) fn serve(server: &Server, planner: Planner) {
    let inside = server.clone();
    let endpoint = InProcessEndpoint::new(move |request: EndpointRequest| {
        let (planner, inside) = (planner.clone(), inside.clone());
        async move {
            let service = HttpService::in_process(inside, request.identity);
            let caller = ApiClient::new(kube::Client::new(service, "default"));
            let (code, plan) = answer(&planner, &caller, &request.body).await;
            let mut response = Response::new(plan);
            *response.status_mut() = code;
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            response
        }
    });
    server.register_endpoint(Method::POST, EndpointPath::At(PATH), endpoint);
}
