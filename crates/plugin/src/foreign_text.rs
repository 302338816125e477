//! Text that other programs write for people, where nothing else says what they mean: which phrase means what, and where upstream has it.
//!
//! All other decisions go by codes, reasons and fields.

/// What a text of another program says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// Attach/detach: another node has the volume (upstream's `pkg/controller/volume/attachdetach/reconciler`, v1.36 and v1.37).
    MultiAttach,
    /// The scheduler: the claim may be used by one pod only, and is (`volumerestrictions`, v1.36, and before v1.34).
    OnePod,
    /// The scheduler: the nodes have as many volumes as their drivers take (`nodevolumelimits/csi.go`, v1.36).
    VolumeLimit,
    /// The scheduler, where it looks (`nodevolumelimits/csi.go`), external-attacher, or the kubelet (`volume/csi/csi_client.go`): the node does not
    /// have the driver.
    NoDriver,
    /// The scheduler: the volume cannot be reached from the nodes (`volumebinding`, v1.36, and before v1.33).
    NodeAffinity,
    /// A CSI driver: the volume is attached elsewhere. The backend matrix has more of these, whose sources it names; of "is attached to", that is
    /// digitalocean/csi-digitalocean, `driver/controller.go`. No two say it alike.
    InUse,
    /// A kubelet: what it says beside the error of a volume.
    MountSummary,
    /// A driver: an earlier call has not returned.
    CallPending,
    /// The API server: an admission policy denies it, with 403 and reasons that others have too.
    AdmissionPolicy,
    /// The API server, of a path of a group that it does not know: it has no Status for that.
    NoSuchGroup,
}

impl Sign {
    fn phrases(self) -> &'static [&'static str] {
        match self {
            Self::MultiAttach => &MULTI_ATTACH,
            Self::OnePod => &[
                "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
                "PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
            ],
            Self::VolumeLimit => &["exceed max volume count"],
            Self::NoDriver => &[
                "CSI driver is not installed on the node",
                "does not contain driver",
                "not found in the list of registered CSI drivers",
            ],
            Self::NodeAffinity => &[
                "PersistentVolume's node affinity",
                "volume node affinity conflict",
            ],
            Self::InUse => &[
                "already attached",
                "is attached to",
                "currently attached",
                "already published",
                "still being used",
                "resource_in_use",
                "volumeinuse",
            ],
            Self::MountSummary => &["Unable to attach or mount volumes"],
            Self::CallPending => &["already exists"],
            Self::AdmissionPolicy => &["ValidatingAdmissionPolicy"],
            Self::NoSuchGroup => &["404 page not found"],
        }
    }

    /// Does the text say so?
    pub fn is_in(self, text: &str) -> bool {
        match self {
            // Drivers write it in any case.
            Self::InUse => says_one_of(text, self.phrases().iter().copied()),
            _ => self.phrases().iter().any(|it| text.contains(it)),
        }
    }
}

/// How attach/detach begins what it says of a volume that another node has: up to Kubernetes 1.36, and since.
const MULTI_ATTACH: [&str; 2] = [
    "Multi-Attach error for volume",
    "Waiting for detach for volume",
];

/// The volume that such a text is about.
pub fn multi_attached(text: &str) -> Option<&str> {
    let mut rest = MULTI_ATTACH
        .into_iter()
        .filter_map(|it| text.split_once(it));
    quoted(rest.next()?.1)
}

/// What stands in quotes first: the volume, in most texts about one.
pub fn quoted(text: &str) -> Option<&str> {
    text.split('"').nth(1)
}

/// Is this name in the text?
pub fn mentions(text: &str, name: &str) -> bool {
    text.contains(name)
}

/// Does the text have one of these phrases, which are in lower case?
pub fn says_one_of<'a>(text: &str, mut phrases: impl Iterator<Item = &'a str>) -> bool {
    let text = text.to_lowercase();
    phrases.any(|it| text.contains(it))
}
