//! What the gateway tells of itself, and the tools that come with it.

use crate::gateway::Gateway;

#[test]
fn a_message_goes_to_its_group_and_comes_back() {
    let gateway = Gateway::start("");
    let mut client = gateway.client();
    let back_end = gateway.back_end("chat", 1);
    client.send(1, "hello");
    back_end.echo(1);
    client.expect(1, "hello");
    let summary = gateway.end();
    assert_eq!((summary.clients, summary.requests, summary.replies), (1, 1, 1));
}
