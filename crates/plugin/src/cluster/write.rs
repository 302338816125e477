//! How objects are changed and made, once: a write is never repeated by itself.

use super::{Cluster, Error, MANAGER, ask_within, is_absent};
use fencing_cluster::client::AskError;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;

/// How often a change is tried of an object that others change too.
const TRIES: u32 = 5;

/// How something is written.
#[derive(Debug, Clone, Copy)]
pub struct Write {
    /// The API server looks at it and keeps nothing.
    pub dry_run: bool,
    /// A ClusterRole of the operator's that may do it.
    pub role: &'static str,
}

impl Cluster {
    /// Changes an object by a merge patch.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn patch<K>(&self, name: &str, patch: &Value, write: &Write) -> Result<K, Error>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let params = PatchParams {
            dry_run: write.dry_run,
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let api: Api<K> = Api::all(self.clients.writes.clone());
        let patch = Patch::Merge(patch);
        let patched = ask_within(self.limits.write, api.patch(name, &params, &patch)).await;
        let what = format!("patch {} {name}", K::kind(&()));
        patched.map_err(|it| match it {
            AskError::Refused { code: 409, .. } => Error::Changed {
                kind: K::kind(&()).into_owned(),
                name: name.to_owned(),
            },
            error if is_absent(&error, name) => Error::Absent {
                kind: K::kind(&()).into_owned(),
                name: name.to_owned(),
                way_out: "it was deleted meanwhile, nothing was changed".to_owned(),
            },
            error => self.error::<K>(error, what, write.role),
        })
    }

    /// Changes an object as `decide` has it, by a merge patch of the version that it was decided on: where the object has changed meanwhile it is
    /// read `again` and decided on once more. Gives it as it is then.
    ///
    /// # Errors
    /// What `decide` or `again` says; [`Error`].
    pub async fn change<K, E: From<Error>>(
        &self,
        object: &K,
        write: &Write,
        again: impl AsyncFn() -> Result<K, E>,
        decide: impl Fn(&K) -> Result<Value, E>,
    ) -> Result<K, E>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let mut now = object.clone();
        let mut tried = 0;
        loop {
            tried += 1;
            let mut patch = decide(&now)?;
            let version = json!({"metadata": {"resourceVersion": now.meta().resource_version}});
            json_patch::merge(&mut patch, &version);
            match self.patch(&now.name_any(), &patch, write).await {
                Err(Error::Changed { .. }) if tried < TRIES => now = again().await?,
                done => return Ok(done?),
            }
        }
    }

    /// Makes an object.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn create<K>(&self, object: &K, write: &Write) -> Result<K, Error>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug,
    {
        let params = PostParams {
            dry_run: write.dry_run,
            field_manager: Some(MANAGER.to_owned()),
        };
        let api: Api<K> = Api::all(self.clients.writes.clone());
        let created = ask_within(self.limits.write, api.create(&params, object)).await;
        let what = || format!("create {}", K::kind(&()));
        created.map_err(|it| self.error::<K>(it, what(), write.role))
    }
}
