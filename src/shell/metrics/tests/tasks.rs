//! How many tasks there are.

use super::*;

/// The endpoint answers on a thread of its own, and what could leak runs on the other.
#[test]
fn tasks_are_those_of_the_runtime_that_works() {
    let [works, answers] = [(); 2].map(|()| {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime")
    });
    let metrics = {
        let _here = works.enter();
        Metrics::new().expect("metrics")
    };
    for _ in 0..50 {
        works.spawn(std::future::pending::<()>());
    }
    let text = answers.block_on(async { metrics.render() }).expect("text");
    let tasks = parse(&text).series["node_fencing_tasks"];
    assert!((50.0..60.0).contains(&tasks), "{tasks}");
}
