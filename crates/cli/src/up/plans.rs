//! Has the API server answer those who ask for plans.

use ferroplane_apiserver::listeners::HttpService;
use ferroplane_apiserver::{InProcessEndpoint, Server};
use ferroplane_client::ApiClient;
use ferroplane_controllers::Planner;

use crate::plans::PATH;
use crate::plans::serve::answer;

/// Answer those who may `post` there. What they propose is tried out as them, and they are shown what they may read.
pub(super) fn serve(server: &Server, planner: Planner) {
    let inside = server.clone();
    let endpoint = InProcessEndpoint::new(move |identity, body| {
        let (planner, inside) = (planner.clone(), inside.clone());
        async move {
            let service = HttpService::in_process(inside, identity);
            let caller = ApiClient::new(kube::Client::new(service, "default"));
            answer(&planner, &caller, &body).await
        }
    });
    server.register_endpoint(PATH, endpoint);
}
