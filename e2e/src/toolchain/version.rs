//! Which Kubernetes a lab has: the one that is pinned first, or the one that the environment asks for.

use std::env;

/// The versions of Kubernetes that a lab can have: that of `go.mod`, and those of the other module files of `e2e/control-plane`.
pub(super) const KUBERNETES: [(&str, &str); 8] = [
    ("go.mod", "v1.36.3"),
    ("1.37.mod", "v1.37.2"),
    ("1.35.mod", "v1.35.4"),
    ("1.34.mod", "v1.34.4"),
    ("1.33.mod", "v1.33.13"),
    ("1.32.mod", "v1.32.13"),
    ("1.31.mod", "v1.31.14"),
    ("1.30.mod", "v1.30.14"),
];

/// Names another version of Kubernetes for all labs of a process, such as 1.35.
const KUBERNETES_VARIABLE: &str = "KUBERNETES";

/// The version of Kubernetes, stamped into the programs, because what parses versions fails on the `v0.0.0-master` of an unstamped build.
///
/// # Panics
/// When the environment names a version that nobody has pinned.
pub fn kubernetes_version() -> &'static str {
    kubernetes().1
}

/// Is it the version that is pinned first, by which what programs of Kubernetes print is recorded?
pub fn is_usual_kubernetes() -> bool {
    let [(_, usual), ..] = KUBERNETES;
    kubernetes_version() == usual
}

/// Its minor version, for what differs between them.
pub fn kubernetes_minor() -> u32 {
    let minor = kubernetes_version().split('.').nth(1);
    minor.and_then(|it| it.parse().ok()).unwrap_or_default()
}

/// The module file and the version that it pins.
pub(super) fn kubernetes() -> (&'static str, &'static str) {
    let [usual, ..] = KUBERNETES;
    let Some(wanted) = env::var(KUBERNETES_VARIABLE)
        .ok()
        .filter(|it| !it.is_empty())
    else {
        return usual;
    };
    let is_wanted = |(_, version): &(&str, &str)| version.starts_with(&format!("v{wanted}."));
    let versions = KUBERNETES.map(|(_, version)| version).join(", ");
    let found = KUBERNETES.into_iter().find(is_wanted);
    found.unwrap_or_else(|| {
        panic!("{KUBERNETES_VARIABLE}={wanted}: there are {versions}; name one like 1.35")
    })
}

/// No symbol table (half the size), and the version where Kubernetes' two copies of it are, in what has modules of Kubernetes.
pub(super) fn ldflags(modules: &str) -> String {
    let mut pinned = KUBERNETES.into_iter();
    let version = pinned.find_map(|(file, version)| (file == modules).then_some(version));
    let Some(version) = version else {
        return "-s -w".to_owned();
    };
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let mut flags = "-s -w".to_owned();
    for package in [
        "k8s.io/component-base/version",
        "k8s.io/client-go/pkg/version",
    ] {
        let values = [
            ("gitVersion", version),
            ("gitMajor", major),
            ("gitMinor", minor),
            ("gitTreeState", "clean"),
        ];
        for (name, value) in values {
            flags += &format!(" -X {package}.{name}={value}");
        }
    }
    flags
}
