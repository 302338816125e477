//! Providers before the machines in place of their BMCs: clouds, hypervisors and clusters that none of us wrote, where one runs here. Each has one
//! FenceDevice for all machines, and switches them itself.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::objects::{device_of, merge, tls};
use super::{Lab, bmcs};
use fencing_testbed::fakepve::{FakePve, TOKEN};
use fencing_testbed::libvirtd::{Domains, Libvirtd, Programs};
use fencing_testbed::moto::{self, Moto};
use fencing_testbed::openstack_peer::OpenstackPeer;
use fencing_testbed::power::Power;
use fencing_testbed::sushy::Libvirt;
use fencing_testbed::vcsim::{LOGIN, Vcsim};

/// Where the providers listen.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

impl Lab {
    /// A Proxmox VE cluster, whose virtual machines they are.
    pub async fn proxmox(&self) -> Result<FakePve> {
        let plane = &self.control_plane;
        let (guard, logs) = (plane.guard(), plane.files().directory());
        let cluster = FakePve::start(HERE, &self.plugs(), &self.ca, guard, logs).await?;
        let [id, secret] = TOKEN;
        let login = json!({"tokenID": id, "tokenSecret": secret});
        let driver = json!({"proxmox": {"address": cluster.url(), "tls": tls()}});
        self.fleet(driver, login).await?;
        Ok(cluster)
    }

    /// An OpenStack cloud, whose instances they are.
    pub async fn openstack(&self) -> Result<OpenstackPeer> {
        let plane = &self.control_plane;
        let (guard, logs) = (plane.guard(), plane.files().directory());
        let cloud = OpenstackPeer::start(HERE, &self.plugs(), &self.ca, guard, logs).await?;
        let [id, secret] = cloud.credential("fence")?;
        let login = json!({"applicationCredentialID": id, "applicationCredentialSecret": secret});
        let driver = json!({"openstack": {"authURL": cloud.auth_url(), "tls": tls()}});
        self.fleet(driver, login).await?;
        Ok(cloud)
    }

    /// A vCenter, whose virtual machines they are.
    pub async fn vsphere(&self) -> Result<Vcsim> {
        let plane = &self.control_plane;
        let (guard, logs) = (plane.guard(), plane.files().directory());
        let vcenter = Vcsim::before(HERE, &self.plugs(), &self.ca, guard, logs).await?;
        // Its VMs have names of its own, and not those of the Nodes.
        for power in self.plugs() {
            let id = format!("vsphere://{}", power.system_uuid());
            self.provider_id(power.name(), &id).await?;
        }
        let [user, password] = LOGIN;
        let login = json!({"username": user, "password": password});
        let driver = json!({"vsphere": {"address": vcenter.url(), "tls": tls()}});
        self.fleet(driver, login).await?;
        Ok(vcenter)
    }

    /// A region of EC2, whose instances they are: by their Nodes' provider IDs, and with their private addresses.
    pub async fn aws(&self) -> Result<Moto> {
        let plane = &self.control_plane;
        let (guard, logs) = (plane.guard(), plane.files().directory());
        let mut machines = Vec::new();
        for power in self.plugs() {
            let address = self.address_of(power.name()).await?;
            machines.push((power, address));
        }
        let region = Moto::before(HERE, &machines, &self.ca, guard, logs).await?;
        for (place, rig) in self.rigs.iter().enumerate() {
            let [instance, _] = region.instance(place)?;
            let id = format!("aws:///{}a/{instance}", moto::REGION);
            self.provider_id(rig.machine.name(), &id).await?;
        }
        let [id, secret] = region.key("fence")?;
        let login = json!({"accessKeyID": id, "secretAccessKey": secret});
        let settings = json!({"region": moto::REGION, "endpoint": region.url(), "tls": tls()});
        let driver = json!({"identityCheck": "BestEffort", "aws": settings});
        self.fleet(driver, login).await?;
        Ok(region)
    }

    /// A host with libvirt, whose domains they are.
    pub async fn libvirt(&self, programs: Programs, libvirt: &Libvirt) -> Result<Domains> {
        let plane = &self.control_plane;
        let (guard, logs) = (plane.guard(), plane.files().directory());
        let daemon = Libvirtd::signed_by(&self.ca, HERE, programs, "none", guard, logs).await?;
        let domains = Domains::start(daemon, libvirt, &self.plugs(), guard, logs).await?;
        let client = domains.client();
        let login = json!({"tls.crt": client.certificate, "tls.key": client.key});
        let driver = json!({"libvirt": {"uri": domains.uri(), "tls": tls()}});
        self.fleet(driver, login).await?;
        Ok(domains)
    }

    /// The plugs of all machines, in their order.
    pub(super) fn plugs(&self) -> Vec<Arc<dyn Power>> {
        self.rigs.iter().map(bmcs::power).collect()
    }

    /// The Node's InternalIP.
    pub(super) async fn address_of(&self, node: &str) -> Result<IpAddr> {
        let status = self.node(node).await?.status.unwrap_or_default();
        let mut all = status.addresses.into_iter().flatten();
        let internal = all.find(|it| it.type_ == "InternalIP");
        let internal = internal.with_context(|| format!("{node} has no InternalIP"))?;
        Ok(internal.address.parse()?)
    }

    /// Gives a Node this provider ID, as the controller manager of its cloud does.
    pub(super) async fn provider_id(&self, node: &str, id: &str) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.control_plane.admin());
        let patch = json!({"spec": {"providerID": id}});
        let params = PatchParams::default();
        nodes.patch(node, &params, &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// One FenceDevice with this driver for all machines, in place of their BMCs', and its Secret.
    pub(super) async fn fleet(&self, driver: Value, login: Value) -> Result<()> {
        const NAME: &str = "fleet";
        self.secret(NAME, login).await?;
        for rig in &self.rigs {
            let name = device_of(rig.machine.name());
            let own = self.api("FenceDevice");
            own.delete(&name, &DeleteParams::default()).await?;
            self.devices.has_no_log(rig.machine.name());
        }
        let mut fleet = json!({
            "nodeSelector": {},
            "credentialsRef": {"name": NAME},
            "probe": {"periodSeconds": 30},
        });
        merge(&mut fleet, &driver);
        self.apply("FenceDevice", NAME, fleet).await.map(drop)
    }
}
