//! Broken answers, broken lines, wrong certificates.

use super::*;

#[tokio::test]
async fn statuses_come_as_often_as_ordered() {
    let bench = bench();
    bench.reply(Reply::new(Which::SystemRead, Nonsense::Status(503, Some(7))).times(2));
    for status in [503, 503, 200] {
        let response = bench
            .send(bench.request(Method::GET, SYSTEM, None))
            .await
            .unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(
            response
                .headers()
                .get("retry-after")
                .map(|v| v.to_str().unwrap()),
            (status == 503).then_some("7")
        );
    }
    bench.reply(Reply::new(Which::ForceOff, Nonsense::Status(500, None)));
    assert_eq!(bench.reset("ForceOff").await.unwrap(), 500);
    assert!(bench.plug.is_on());
    bench.reply(Reply::new(Which::ForceOff, Nonsense::Close).after_effect());
    bench.reset("ForceOff").await.unwrap_err();
    assert!(
        !bench.plug.is_on(),
        "it took effect, only the answer is missing"
    );
    bench.reply(Reply::new(
        Which::Read,
        Nonsense::Redirect(307, "https://127.0.0.9/".to_owned()),
    ));
    assert_eq!(bench.read(SYSTEM).await.unwrap().0, 307);
    bench.bmc.faults(|faults| {
        faults.replies.clear();
        faults.empty_reads_after_reset = 1;
    });
    bench.reset("On").await.unwrap();
    assert_eq!(bench.read(SYSTEM).await.unwrap(), (200, Bytes::new()));
    assert_eq!(bench.power_state().await, "On");
}

#[tokio::test]
async fn bodies_are_broken_in_every_way() {
    let bench = bench();
    let right = bench.read(SYSTEM).await.unwrap().1;
    let body = async |what: Nonsense| {
        bench.reply(Reply::new(Which::SystemRead, what));
        bench.read(SYSTEM).await
    };
    for what in [
        Nonsense::BadJson,
        Nonsense::Html,
        Nonsense::Empty,
        Nonsense::NotText,
        Nonsense::Gzip,
    ] {
        let (status, body) = body(what.clone()).await.unwrap();
        assert_eq!(status, 200);
        assert!(
            serde_json::from_slice::<Value>(&body).is_err(),
            "{what:?}: {body:?}"
        );
    }
    assert!(
        body(Nonsense::NotAnObject)
            .await
            .unwrap()
            .1
            .starts_with(b"[")
    );
    body(Nonsense::Truncated).await.unwrap_err();
    body(Nonsense::Close).await.unwrap_err();
    let reset = format!("{:?}", body(Nonsense::Reset).await.unwrap_err());
    assert!(reset.contains("reset by peer"), "{reset}");

    let (_, padded) = body(Nonsense::Padded(100_000)).await.unwrap();
    assert_eq!(padded.len(), right.len() + 100_000);
    assert_eq!(
        serde_json::from_slice::<Value>(&padded).unwrap()["UUID"],
        UUID
    );
    let (_, deep) = body(Nonsense::Deep(10_000)).await.unwrap();
    assert_eq!(
        deep.iter().filter(|byte| **byte == b']').count(),
        10_000 + right.iter().filter(|b| **b == b']').count()
    );

    bench.reply(Reply::new(Which::SystemRead, Nonsense::EndlessChunks));
    let mut endless = bench
        .send(bench.request(Method::GET, SYSTEM, None))
        .await
        .unwrap()
        .into_body();
    let mut seen = 0;
    while seen < 3_000_000 {
        seen += endless
            .frame()
            .await
            .unwrap()
            .unwrap()
            .into_data()
            .unwrap()
            .len();
    }
    drop(endless);
    let short = "/redfish/v1/odata";
    let right = bench.read(short).await.unwrap();
    let to = Which::PathEndsWith("/odata".to_owned());
    bench.reply(Reply::new(to, Nonsense::Drip(Duration::from_millis(2))));
    let begin = Instant::now();
    assert_eq!(bench.read(short).await.unwrap(), right);
    assert!(begin.elapsed() > Duration::from_millis(2) * u32::try_from(right.1.len()).unwrap());
}

#[tokio::test]
async fn the_line_is_refused_black_or_dark_and_comes_back() {
    let bench = bench();
    let patience = Duration::from_millis(400);
    let raw = || tokio::net::TcpStream::connect(bench.bmc.address());
    for _ in 0..2 {
        assert_eq!(bench.power_state().await, "On");
        bench.bmc.set_line(Line::Refused).unwrap();
        assert_eq!(
            raw().await.unwrap_err().kind(),
            std::io::ErrorKind::ConnectionRefused
        );
        bench.read(SYSTEM).await.unwrap_err();
        bench.bmc.set_line(Line::Up).unwrap();
        assert_eq!(bench.power_state().await, "On");

        bench.bmc.set_line(Line::BlackHole).unwrap();
        raw().await.unwrap();
        let silent = tokio::time::timeout(patience, bench.read(SYSTEM)).await;
        assert!(silent.is_err(), "the open connection is silent: {silent:?}");
        let silent = tokio::time::timeout(patience, bench.read(SYSTEM)).await;
        assert!(silent.is_err(), "a new connection is silent: {silent:?}");
        bench.bmc.set_line(Line::Up).unwrap();
        assert_eq!(bench.power_state().await, "On");

        bench.bmc.set_line(Line::Dark).unwrap();
        let silent = tokio::time::timeout(patience, raw()).await;
        assert!(silent.is_err(), "not even TCP answers: {silent:?}");
        let silent = tokio::time::timeout(patience, bench.read(SYSTEM)).await;
        assert!(silent.is_err(), "the open connection is silent: {silent:?}");
        bench.bmc.set_line(Line::Up).unwrap();
        assert_eq!(bench.power_state().await, "On");
    }
    let (reboot, _) = tokio::join!(bench.bmc.reboot(Duration::from_millis(100)), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        bench.read(SYSTEM).await.unwrap_err();
    });
    reboot.unwrap();
    assert_eq!(bench.power_state().await, "On");
}

#[tokio::test]
async fn a_dark_bmc_forgets_what_it_had_accepted() {
    let bench = bench();
    bench
        .bmc
        .faults(|faults| faults.effect = Effect::After(Duration::from_millis(500)));
    bench.reset("ForceOff").await.unwrap();
    bench.bmc.set_line(Line::Dark).unwrap();
    assert!(!bench.plug.wait_until(false, Duration::from_secs(1)).await);
}

#[tokio::test]
async fn certificates_are_swapped_expired_or_missing() {
    let bench = bench();
    for certificate in [Certificate::Swapped, Certificate::Own] {
        bench.bmc.faults(|faults| faults.certificate = certificate);
        let fresh = client(bench.bmc.ca_pem()).unwrap();
        fresh
            .request(bench.request(Method::GET, SYSTEM, None))
            .await
            .unwrap();
    }
    assert_ne!(
        Some(bench.bmc.fingerprint()),
        bench.bmc.fingerprint_of(Certificate::Swapped)
    );
    assert_eq!(bench.bmc.fingerprint().len(), 64);
    for certificate in [
        Certificate::Expired,
        Certificate::Untrusted,
        Certificate::OtherAddress,
        Certificate::Plaintext,
    ] {
        bench.bmc.faults(|faults| faults.certificate = certificate);
        let fresh = client(bench.bmc.ca_pem()).unwrap();
        fresh
            .request(bench.request(Method::GET, SYSTEM, None))
            .await
            .unwrap_err();
    }
    let plain = format!("http://{}{SYSTEM}", bench.bmc.address());
    let mut request = bench.request(Method::GET, SYSTEM, None);
    *request.uri_mut() = plain.parse().unwrap();
    assert_eq!(
        bench.send(request).await.unwrap().status(),
        200,
        "plain HTTP on the port"
    );
}

#[tokio::test]
async fn a_reused_connection_is_reset() {
    let bench = bench();
    bench
        .bmc
        .faults(|faults| faults.reset_reused_connection = true);
    assert_eq!(bench.read(SYSTEM).await.unwrap().0, 200);
    bench.read(SYSTEM).await.unwrap_err();
    assert_eq!(
        bench.read(SYSTEM).await.unwrap().0,
        200,
        "a new connection works"
    );
}

#[tokio::test]
async fn a_second_bmc_at_an_address_takes_another_port_and_keeps_it() {
    let first = bench();
    let ca = BmcCa::new("test").unwrap();
    let plug = Arc::new(Plug::new("node-2", UUID));
    let address = first.bmc.address().ip();
    let bmc = Bmc::start(address, plug.clone(), Credentials::default(), &ca).unwrap();
    let client = client(bmc.ca_pem()).unwrap();
    let second = Bench { bmc, plug, client };
    let before = second.bmc.address();
    assert_ne!(first.bmc.address(), before);
    for line in [Line::Refused, Line::Dark, Line::Up] {
        second.bmc.set_line(line).unwrap();
    }
    assert_eq!(second.bmc.address(), before);
    assert_eq!(second.power_state().await, "On");
    assert_eq!(first.power_state().await, "On");
}
