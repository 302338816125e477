//! The kinds of objects that the server knows: those that the operator and its surroundings use, and no others.

/// A kind, and how its paths are built.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group, empty for the core.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Plural name.
    pub plural: &'static str,
    /// `kind`.
    pub kind: &'static str,
    /// Does it live in namespaces?
    pub namespaced: bool,
    /// Does it come from a CustomResourceDefinition?
    pub custom: bool,
}

const fn kind(
    (group, version): (&'static str, &'static str),
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
) -> Kind {
    Kind {
        group,
        version,
        plural,
        kind,
        namespaced,
        custom: false,
    }
}

const fn custom(plural: &'static str, kind: &'static str) -> Kind {
    Kind {
        group: "nodefencing.io",
        version: "v1alpha1",
        plural,
        kind,
        namespaced: false,
        custom: true,
    }
}

const CORE: (&str, &str) = ("", "v1");

/// Nodes.
pub static NODE: Kind = kind(CORE, "nodes", "Node", false);
/// Pods.
pub static POD: Kind = kind(CORE, "pods", "Pod", true);
/// PersistentVolumeClaims.
pub static CLAIM: Kind = kind(
    CORE,
    "persistentvolumeclaims",
    "PersistentVolumeClaim",
    true,
);
/// Secrets.
pub static SECRET: Kind = kind(CORE, "secrets", "Secret", true);
/// ConfigMaps.
pub static CONFIG_MAP: Kind = kind(CORE, "configmaps", "ConfigMap", true);
/// Leases.
pub static LEASE: Kind = kind(("coordination.k8s.io", "v1"), "leases", "Lease", true);
/// VolumeAttachments.
pub static ATTACHMENT: Kind = kind(
    ("storage.k8s.io", "v1"),
    "volumeattachments",
    "VolumeAttachment",
    false,
);
/// Events.
pub static EVENT: Kind = kind(("events.k8s.io", "v1"), "events", "Event", true);
/// NodeFences.
pub static FENCE: Kind = custom("nodefences", "NodeFence");
/// FenceDevices.
pub static DEVICE: Kind = custom("fencedevices", "FenceDevice");
/// NodeFencingPolicies.
pub static POLICY: Kind = custom("nodefencingpolicies", "NodeFencingPolicy");
/// NodeFenceRemediations.
pub static REMEDIATION: Kind = Kind {
    namespaced: true,
    ..custom("nodefenceremediations", "NodeFenceRemediation")
};

/// All of them.
pub static KINDS: [&Kind; 12] = [
    &NODE,
    &POD,
    &CLAIM,
    &SECRET,
    &CONFIG_MAP,
    &LEASE,
    &ATTACHMENT,
    &EVENT,
    &FENCE,
    &DEVICE,
    &POLICY,
    &REMEDIATION,
];

impl Kind {
    /// `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The name that errors use: `nodefences.nodefencing.io`.
    #[must_use]
    pub fn resource(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }
}

/// What a path addresses.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// The kind.
    pub kind: &'static Kind,
    /// Namespace; none for all, and for what lives in none.
    pub namespace: Option<String>,
    /// Name; none for the collection.
    pub name: Option<String>,
    /// `status`.
    pub is_status: bool,
}

/// What this path addresses; none: nothing that is known here.
#[must_use]
pub fn place(path: &str) -> Option<Place> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let ((group, version), rest) = match *parts.as_slice() {
        ["api", version, ref rest @ ..] => (("", version), rest),
        ["apis", group, version, ref rest @ ..] => ((group, version), rest),
        _ => return None,
    };
    let (namespace, rest) = match *rest {
        ["namespaces", namespace, ref rest @ ..] if !rest.is_empty() => (Some(namespace), rest),
        _ => (None, rest),
    };
    let (plural, name, sub) = match *rest {
        [plural] => (plural, None, None),
        [plural, name] => (plural, Some(name), None),
        [plural, name, sub] => (plural, Some(name), Some(sub)),
        _ => return None,
    };
    let known =
        |kind: &&&Kind| kind.group == group && kind.version == version && kind.plural == plural;
    Some(Place {
        kind: KINDS.iter().find(known)?,
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        is_status: match sub {
            None => false,
            Some("status") => true,
            Some(_) => return None,
        },
    })
}
