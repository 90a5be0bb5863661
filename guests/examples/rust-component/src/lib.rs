//! Says hello to the author of the composite resource. Takes a RunFunctionRequest as protobuf and gives a RunFunctionResponse.
//!
//! Only the fields that it needs are declared; others pass by unread. A real function uses all of Crossplane's messages.

use prost::Message as _;

wit_bindgen::generate!({ path: "../../../crates/wasm/wit", world: "function" });

struct Hello;

impl exports::ferroplane::function::handler::Guest for Hello {
    fn run(request: Vec<u8>) -> Result<Vec<u8>, String> {
        let request =
            Request::decode(&request[..]).map_err(|error| format!("cannot read the request: {error}"))?;
        ferroplane::function::log::write("saying hello");
        let hello = Event { severity: SEVERITY_NORMAL, message: "hello".to_owned() };
        // What earlier steps want has to be passed on, or it is deleted.
        let response = Response { meta: request.meta, desired: request.desired, results: vec![hello] };
        Ok(response.encode_to_vec())
    }
}

export!(Hello);

const SEVERITY_NORMAL: i32 = 3;

#[derive(prost::Message)]
struct Meta {
    #[prost(string, tag = "1")]
    tag: String,
}

#[derive(prost::Message)]
struct Request {
    #[prost(message, tag = "1")]
    meta: Option<Meta>,
    /// As it came: a message is bytes with a length before them.
    #[prost(bytes = "vec", optional, tag = "3")]
    desired: Option<Vec<u8>>,
}

#[derive(prost::Message)]
struct Response {
    #[prost(message, tag = "1")]
    meta: Option<Meta>,
    #[prost(bytes = "vec", optional, tag = "2")]
    desired: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "3")]
    results: Vec<Event>,
}

#[derive(prost::Message)]
struct Event {
    #[prost(int32, tag = "1")]
    severity: i32,
    #[prost(string, tag = "2")]
    message: String,
}
