//! Proves that a server of Spark Connect requires the token in its Secret, with Spark 4.1 or later.

use crate::node::connect;

#[test]
#[ignore = "needs Spark 4.1: make soak"]
fn a_server_with_a_token_serves_only_clients_that_send_it() {
    connect::a_server_with_a_token_serves_only_clients_that_send_it();
    println!("soak: token: a server has served those who sent its token, and nobody else");
}
