//! What a token may do, as Proxmox VE says in peace time.

use super::calls::{driver, service};
use super::*;
use crate::Extent;

#[tokio::test]
async fn a_token_that_may_not_stop_the_vm_is_told_of_in_peace_time() {
    let service = service().await;
    let asked = format!("GET {API}/access/permissions?path=/vms/104");
    let driver = driver(&service, "proxmox://lab/104");
    for (of_vm, may) in [
        (json!({"VM.Audit": 1}), false),
        (json!({"VM.Audit": 1, "VM.PowerMgmt": 0}), true),
        (json!({}), true),
    ] {
        let body = json!({"data": {"/vms/104": of_vm}});
        service.now(&asked, "200 OK", "", body);
        let probe = driver.open().probe(Extent::Needed).await.expect("a probe");
        assert_eq!(probe.off_denied.is_none(), may, "{:?}", probe.off_denied);
        let words = probe.off_denied.map(|it| it.to_string());
        assert!(words.is_none_or(|it| it.contains("denied VM.PowerMgmt to this account")));
    }
    let error = json!({"message": "no"});
    service.now(&asked, "500 Internal Server Error", "", error);
    let probe = driver.open().probe(Extent::Needed).await.expect("a probe");
    assert_eq!(probe.off_denied, None, "it does not tell");
}
