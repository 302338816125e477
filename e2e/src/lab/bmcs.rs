//! Other BMCs before the machines than the lab's own Redfish ones. Each is put there before the operator starts: afterwards
//! it would be another device's identity that was pinned.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use anyhow::Result;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use super::objects::{device_of, ipmi, redfish, tls};
use super::{Lab, Rig};
use crate::operator::NAMESPACE;
use fencing_testbed::fakepve::{FakePve, TOKEN};
use fencing_testbed::ipmi::{IpmiBmc, Settings, Suite};
use fencing_testbed::ipmi_peers::{Brand, IpmiPeer};
use fencing_testbed::openstack_peer::OpenstackPeer;
use fencing_testbed::power::Power;
use fencing_testbed::sushy::{Libvirt, Sushy};
use fencing_testbed::vcsim::{LOGIN, Vcsim};

impl Lab {
    /// Puts sushy-tools' emulator before the machine of this number, and points its FenceDevice there.
    pub async fn sushy(&self, number: usize) -> Result<Sushy> {
        self.emulator(number, None).await
    }

    /// The same with its libvirt driver: the machine is a domain, which its hypervisor saves when it loses its power.
    pub async fn saved_domain(&self, number: usize, libvirt: &Libvirt) -> Result<Sushy> {
        self.emulator(number, Some(libvirt)).await
    }

    async fn emulator(&self, number: usize, libvirt: Option<&Libvirt>) -> Result<Sushy> {
        let rig = self.rig(number);
        let IpAddr::V4(address) = rig.bmc.address().ip() else {
            anyhow::bail!("the lab's BMCs have addresses of 127.0.0.0/8");
        };
        // The lab's own BMCs count up from 1 in the last byte.
        let [a, b, c, d] = address.octets();
        let address = Ipv4Addr::new(a, b, c, d + 100).into();
        let sushy = Sushy::start(
            address,
            power(rig),
            rig.bmc.credentials().clone(),
            &self.ca,
            self.control_plane.guard(),
            self.control_plane.files().directory(),
            libvirt,
        )
        .await?;
        self.device(rig, redfish(&sushy.url())).await?;
        self.devices.has_no_log(rig.machine.name());
        Ok(sushy)
    }

    /// Puts the lab's own IPMI BMC, with this suite alone, before the machine of this number, and points its FenceDevice
    /// there. It shares the address of the Redfish BMC, as they do in life.
    pub async fn ipmi(&self, number: usize, suite: Suite) -> Result<IpmiBmc> {
        let rig = self.rig(number);
        let settings = Settings::with_suite(suite);
        let bmc = IpmiBmc::start(rig.bmc.address().ip(), power(rig), settings)?;
        self.device(rig, ipmi(bmc.address(), suite)).await?;
        self.devices.log(rig.machine.name(), bmc.recorder());
        Ok(bmc)
    }

    /// Puts an IPMI BMC that none of us wrote before the machine of this number, and points its FenceDevice there, with
    /// suite 3: the only one that they know.
    pub async fn ipmi_peer(&self, number: usize, brand: Brand) -> Result<IpmiPeer> {
        let rig = self.rig(number);
        let peer = IpmiPeer::start(
            brand,
            rig.bmc.address().ip(),
            power(rig),
            rig.bmc.credentials().clone(),
            self.control_plane.guard(),
            self.control_plane.files().directory(),
        )
        .await?;
        self.device(rig, ipmi(peer.address(), Suite::Three)).await?;
        self.devices.has_no_log(rig.machine.name());
        Ok(peer)
    }

    /// Makes the machines virtual ones of a Proxmox VE cluster that none of us wrote, with one FenceDevice for all of them in place of their BMCs'.
    pub async fn proxmox(&self) -> Result<FakePve> {
        let machines: Vec<Arc<dyn Power>> = self.rigs.iter().map(power).collect();
        let cluster = FakePve::start(
            Ipv4Addr::LOCALHOST.into(),
            &machines,
            &self.ca,
            self.control_plane.guard(),
            self.control_plane.files().directory(),
        )
        .await?;
        let [id, secret] = TOKEN;
        let login = json!({"tokenID": id, "tokenSecret": secret});
        self.hypervisors(
            "proxmox",
            json!({"address": cluster.url(), "tls": tls()}),
            login,
        )
        .await?;
        Ok(cluster)
    }

    /// Makes the machines instances of an OpenStack cloud that none of us wrote, with one FenceDevice for all of them.
    pub async fn openstack(&self) -> Result<OpenstackPeer> {
        let machines: Vec<Arc<dyn Power>> = self.rigs.iter().map(power).collect();
        let cloud = OpenstackPeer::start(
            Ipv4Addr::LOCALHOST.into(),
            &machines,
            &self.ca,
            self.control_plane.guard(),
            self.control_plane.files().directory(),
        )
        .await?;
        let [id, secret] = cloud.credential("fence")?;
        let login = json!({"applicationCredentialID": id, "applicationCredentialSecret": secret});
        let settings = json!({"authURL": cloud.auth_url(), "tls": tls()});
        self.hypervisors("openstack", settings, login).await?;
        Ok(cloud)
    }

    /// Makes the machines virtual ones of a vCenter that none of us wrote, with one FenceDevice for all of them.
    pub async fn vsphere(&self) -> Result<Vcsim> {
        let machines: Vec<Arc<dyn Power>> = self.rigs.iter().map(power).collect();
        let vcenter = Vcsim::before(
            Ipv4Addr::LOCALHOST.into(),
            &machines,
            &self.ca,
            self.control_plane.guard(),
            self.control_plane.files().directory(),
        )
        .await?;
        let [user, password] = LOGIN;
        let login = json!({"username": user, "password": password});
        let settings = json!({"address": vcenter.url(), "tls": tls()});
        self.hypervisors("vsphere", settings, login).await?;
        Ok(vcenter)
    }

    /// One FenceDevice with this driver for all machines, in place of their BMCs', and its Secret.
    async fn hypervisors(&self, driver: &str, settings: Value, login: Value) -> Result<()> {
        let hosts = json!({"nodefencing.io/allowed-hosts": "127.0.0.0/8"});
        let secret =
            json!({"metadata": {"name": driver, "annotations": hosts}, "stringData": login});
        let secrets: Api<Secret> = Api::namespaced(self.control_plane.admin(), NAMESPACE);
        secrets
            .create(&PostParams::default(), &serde_json::from_value(secret)?)
            .await?;
        for rig in &self.rigs {
            let name = device_of(rig.machine.name());
            let own = self.api("FenceDevice");
            own.delete(&name, &DeleteParams::default()).await?;
            self.devices.has_no_log(rig.machine.name());
        }
        let fleet = json!({
            "nodeSelector": {},
            "credentialsRef": {"name": driver},
            "probe": {"periodSeconds": 30},
            driver: settings,
        });
        self.apply("FenceDevice", "hypervisors", fleet).await?;
        Ok(())
    }
}

fn power(rig: &Rig) -> Arc<dyn Power> {
    rig.machine.clone()
}
