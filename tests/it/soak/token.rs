//! Proves that a server of Spark Connect asks for the token in its Secret, where its Spark can: since 4.1.

use crate::node::connect;

#[test]
#[ignore = "needs Spark 4.1: make soak"]
fn a_server_with_a_token_serves_those_who_send_it_and_nobody_else() {
    connect::a_server_with_a_token_serves_those_who_send_it_and_nobody_else();
    println!("soak: token: a server has served those who sent its token, and nobody else");
}
