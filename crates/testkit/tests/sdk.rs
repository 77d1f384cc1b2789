//! The upstream seen from the official clients. Needs the Python environment of `make test`.

use agentguard_testkit::{Upstream, UpstreamOptions, process, python, python_task};

fn check(script: &str, base_url: &str) {
    let output = python(script, &[base_url], &[]);
    assert!(output.status.success(), "{}", process::show(&output));
}

#[test]
fn the_stripe_package_pays_refunds_and_sees_a_decline() {
    let up = Upstream::start_with(UpstreamOptions::default());
    check(include_str!("sdk/stripe_client.py"), &up.base_url());
    let stats = up.stats();
    // 1234 charged, 700 by an intent, 50 transferred, 60 paid out; 1000 yen confirmed at once.
    assert_eq!(stats.taken_minor, [("jpy".to_owned(), 1000), ("usd".to_owned(), 2044)].into());
    assert_eq!(stats.refunded_minor, [("usd".to_owned(), 234)].into());
    assert_eq!((stats.charges, stats.declined), (5, 1));
    let keyed = up.takings().iter().all(|taking| taking.idempotency_key.is_some());
    assert!(keyed, "the package sends a key with every POST");
}

#[tokio::test]
async fn the_openai_package_reads_answers_streams_and_usage() {
    let up = Upstream::start().await;
    let script = include_str!("sdk/openai_client.py");
    let output = python_task(script, vec![up.base_url()], Vec::new()).await;
    assert!(output.status.success(), "{}", process::show(&output));
    assert!(up.stats().output_tokens > 0);
    // The script leaves an endless stream behind; its process is gone by now.
    up.wait_open_streams(0, std::time::Duration::from_secs(20)).await;
}

#[test]
fn the_anthropic_package_reads_answers_streams_and_usage() {
    let up = Upstream::start_with(UpstreamOptions::default());
    check(include_str!("sdk/anthropic_client.py"), &up.base_url());
}
