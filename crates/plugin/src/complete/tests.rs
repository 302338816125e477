use super::*;

fn at(line: &str, begun: &str) -> Place {
    let command = super::super::command();
    let before: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    Line::of(&command, &before).place(begun).0
}

fn names(kind: Kind) -> Place {
    Place::Names(kind, String::new())
}

fn words(line: &str, begun: &str) -> Vec<String> {
    match at(line, begun) {
        Place::Words(words) => words.into_iter().map(|(word, _)| word).collect(),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn commands_come_first_and_then_what_they_take() {
    assert!(words("", "st").contains(&"status".to_owned()));
    assert!(words("--context lab", "").contains(&"status".to_owned()));
    for (line, kind) in [
        ("plan", Kind::Node),
        ("now", Kind::Node),
        ("confirm --reason seen", Kind::Open),
        ("confirm --confirm-node", Kind::Node),
        ("pause", Kind::Policy),
        ("test worker-1 --device", Kind::Device),
        ("approve", Kind::Open),
        ("--context=lab explain", Kind::Incident),
        ("status", Kind::Any),
        ("status --context", Kind::Context),
        ("status --user", Kind::User),
        ("diagnose -n", Kind::Namespace),
        ("status --operator-namespace", Kind::Namespace),
        ("diagnose -n shop pvc", Kind::Claim),
    ] {
        assert_eq!(at(line, ""), names(kind), "{line}");
    }
    assert!(words("help", "").contains(&"status".to_owned()));
    assert_eq!(at("now worker-1 --reason", ""), Place::Free);
    assert_eq!(at("status --kubeconfig", ""), Place::File);
}

#[test]
fn flags_and_their_values_are_named() {
    assert!(words("status", "--w").contains(&"--watch".to_owned()));
    assert!(words("status", "--").contains(&"--context".to_owned()));
    assert_eq!(
        words("status -o", ""),
        ["table", "wide", "json", "yaml", "name"]
    );
    assert!(words("completion", "").contains(&"bash".to_owned()));
    assert_eq!(words("now worker-1 --dry-run", ""), ["none", "server"]);
    assert_eq!(words("now worker-1 -o", ""), ["json", "yaml", "name"]);
    let modes = ["Observe", "ConfirmOnly", "PowerOff"];
    assert_eq!(words("now worker-1 --mode", ""), modes);
    assert_eq!(words("generate policy --mode", ""), modes);
    assert_eq!(at("history", "--context=l"), names(Kind::Context));
}

#[test]
fn diagnose_takes_a_type_and_then_a_name_of_that() {
    assert_eq!(at("diagnose", "p"), Place::Subject);
    let pods = Place::Names(Kind::Pod, "po/".to_owned());
    assert_eq!(at("diagnose -nshop", "po/d"), pods);
    let nodes = Place::Names(Kind::Node, "node/".to_owned());
    assert_eq!(at("diagnose", "node/"), nodes);
    assert_eq!(at("diagnose", "svc/"), Place::Free);
    assert_eq!(at("diagnose pod/db-0", ""), Place::Free);
}

#[test]
fn names_are_asked_for_as_whoever_is_named_and_where() {
    let command = super::super::command();
    let line = "diagnose --as=eve --as-group a --as-group=b -nshop";
    let before: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let line = Line::of(&command, &before);
    let values = |id: &str| line.values(id).collect::<Vec<_>>();
    assert_eq!(values("as_user"), ["eve"]);
    assert_eq!(values("groups"), ["a", "b"]);
    assert_eq!(values("namespace"), ["shop"]);
}

#[tokio::test]
async fn what_does_not_fit_is_left_out_and_files_are_for_the_shell() {
    let command = super::super::command();
    let told = complete(&command, &["stat".to_owned()]).await;
    let lines: Vec<&str> = told.lines().collect();
    assert!(matches!(lines.as_slice(), [one, ":4"] if one.starts_with("status\t")));
    let file = ["status", "--kubeconfig", ""].map(str::to_owned);
    assert_eq!(complete(&command, &file).await, ":0\n");
    let value = ["status", "--output=js"].map(str::to_owned);
    let told = complete(&command, &value).await;
    assert!(
        told.starts_with("json\t") && told.ends_with("\n:4\n"),
        "{told}"
    );
    let subject = ["diagnose", "p"].map(str::to_owned);
    assert_eq!(complete(&command, &subject).await, "pod/\npvc/\n:6\n");
}

#[tokio::test]
async fn contexts_are_those_of_the_kubeconfig() {
    let file = std::env::temp_dir().join(format!("complete-{}.yaml", std::process::id()));
    let text = "apiVersion: v1\nkind: Config\ncontexts:\n- name: lab\n- name: live\n";
    std::fs::write(&file, text).expect("a file");
    let words = [
        "status",
        "--kubeconfig",
        &file.to_string_lossy(),
        "--context",
        "li",
    ];
    let words = words.map(str::to_owned);
    let told = complete(&super::super::command(), &words).await;
    std::fs::remove_file(&file).expect("it is there");
    assert_eq!(told, "live\n:4\n");
}
