//! Answers that take a reader which keeps all of them the most memory for their bytes.

/// An attack: which driver and way, what it is, its status, the largest body, and what that is made of.
pub type Attack = (
    &'static str,
    &'static str,
    &'static str,
    usize,
    [&'static str; 3],
);

const OK: &str = "200 OK";
const MIB: usize = 1 << 20;
/// What takes most of a general reader's memory for its bytes.
const OBJECTS: &str = "{\"\":0},";

pub const ATTACKS: [Attack; 23] = [
    (
        "azure-list",
        "machines",
        OK,
        4 * MIB,
        ["{\"value\":[", "{\"id\":\"\",\"properties\":{}},", "0]}"],
    ),
    (
        "azure-list",
        "tags",
        OK,
        4 * MIB,
        [
            "{\"value\":[{\"id\":\"\",\"properties\":{},\"tags\":{\"a\":[",
            OBJECTS,
            "0]}}]}",
        ],
    ),
    (
        "azure-list",
        "sizes",
        OK,
        4 * MIB,
        [
            "{\"value\":[{\"id\":\"\",\"properties\":{\"hardwareProfile\":[",
            OBJECTS,
            "0]}}]}",
        ],
    ),
    (
        "azure-list",
        "statuses",
        OK,
        4 * MIB,
        [
            "{\"value\":[{\"id\":\"\",\"properties\":{\"instanceView\":{\"statuses\":[",
            "{\"code\":\"\"},",
            "0]}}}]}",
        ],
    ),
    (
        "azure-list",
        "a failure",
        "400 Bad Request",
        4 * MIB,
        ["{\"error\":[", OBJECTS, "0]}"],
    ),
    (
        "gcp-list",
        "instances",
        OK,
        2 * MIB,
        [
            "{\"items\":[",
            "{\"id\":\"\",\"name\":\"\",\"status\":\"\"},",
            "0]}",
        ],
    ),
    (
        "gcp-list",
        "disks",
        OK,
        2 * MIB,
        [
            "{\"items\":[{\"id\":\"\",\"name\":\"\",\"status\":\"\",\"disks\":[",
            "{},",
            "{}]}]}",
        ],
    ),
    (
        "gcp-list",
        "interfaces",
        OK,
        2 * MIB,
        [
            "{\"items\":[{\"id\":\"\",\"name\":\"\",\"status\":\"\",\"networkInterfaces\":[",
            "{},",
            "{}]}]}",
        ],
    ),
    (
        "gcp-list",
        "metadata",
        OK,
        2 * MIB,
        [
            "{\"items\":[{\"id\":\"\",\"name\":\"\",\"status\":\"\",\"metadata\":{\"items\":[",
            "{\"key\":\"\"},",
            "{\"key\":\"\"}]}}]}",
        ],
    ),
    (
        "gcp-list",
        "a failure",
        "400 Bad Request",
        2 * MIB,
        ["{\"error\":[", OBJECTS, "0]}"],
    ),
    (
        "hetzner-list",
        "servers",
        OK,
        2 * MIB,
        [
            "{\"servers\":[",
            "{\"id\":1,\"name\":\"\",\"status\":\"\",\"locked\":false,\"rescue_enabled\":false,\"public_net\":0,\"private_net\":0,\"server_type\":{\"name\":\"\"}},",
            "0]}",
        ],
    ),
    (
        "hetzner-list",
        "networks",
        OK,
        2 * MIB,
        ["{\"servers\":[{\"private_net\":[", OBJECTS, "0]}]}"],
    ),
    (
        "hetzner-list",
        "addresses",
        OK,
        2 * MIB,
        [
            "{\"servers\":[{\"public_net\":{\"ipv4\":[",
            OBJECTS,
            "0]}}]}",
        ],
    ),
    (
        "nutanix-list",
        "virtual machines",
        OK,
        MIB,
        ["{\"data\":[", "{\"extId\":\"\"},", "0]}"],
    ),
    (
        "proxmox-list",
        "machines",
        OK,
        4 * MIB,
        ["{\"data\":[", "{},", "{}]}"],
    ),
    (
        "proxmox-list",
        "a VMID",
        OK,
        4 * MIB,
        ["{\"data\":[{\"vmid\":[", OBJECTS, "0]}]}"],
    ),
    (
        "proxmox-list",
        "a failure",
        "500 no",
        4 * MIB,
        ["{\"message\":[", OBJECTS, "0]}"],
    ),
    (
        "openstack-list",
        "servers",
        OK,
        2 * MIB,
        ["{\"servers\":[", "{},", "{}]}"],
    ),
    (
        "openstack-list",
        "a flavor",
        OK,
        2 * MIB,
        ["{\"servers\":[{\"flavor\":{\"a\":[", OBJECTS, "0]}}]}"],
    ),
    (
        "kubevirt-list",
        "pods",
        OK,
        4 * MIB,
        [
            "{\"kind\":\"PartialObjectMetadataList\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[",
            "{\"metadata\":{}},",
            "{\"metadata\":{}}]}",
        ],
    ),
    (
        "aws-list",
        "elements",
        OK,
        2 * MIB,
        [
            "<DescribeInstancesResponse>",
            "<a/>",
            "</DescribeInstancesResponse>",
        ],
    ),
    (
        "aws-list",
        "attributes",
        OK,
        2 * MIB,
        [
            "<DescribeInstancesResponse",
            " a=''",
            "></DescribeInstancesResponse>",
        ],
    ),
    (
        "xapi-off",
        "words of an error",
        OK,
        4 * MIB,
        [
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"status\":\"failure\",\"error_info\":[",
            "\"\",",
            "\"\"]}}",
        ],
    ),
];
