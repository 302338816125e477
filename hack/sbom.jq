# From `cargo metadata` to CycloneDX 1.5: the packages that the operator is linked from, without those of its tests and builds, and those of Debian
# (`--arg debian`, a line each: name, version, release).
. as $all
| ($all.resolve.nodes | map({key: .id, value: .}) | from_entries) as $nodes
| ($all.packages | map({key: .id, value: .}) | from_entries) as $packages
| ($all.packages[] | select(.name == $name) | .id) as $root
| def linked($id): $nodes[$id].deps[] | select(any(.dep_kinds[]; .kind == null)) | .pkg;
  def closure: . as $seen | ($seen + [$seen[] | linked(.)] | unique) | if length == ($seen | length) then . else closure end;
  def purl: "pkg:cargo/\(.name)@\(.version)";
{
  bomFormat: "CycloneDX",
  specVersion: "1.5",
  version: 1,
  metadata: {component: {type: "application", name: $name, version: $version, purl: "pkg:cargo/\($name)@\($version)"}},
  components: ([
    [$root] | closure | .[] | select(. != $root) | $packages[.]
    | {type: "library", name, version, purl: purl, "bom-ref": purl, licenses: [{expression: (.license // "NOASSERTION")}]}
  ] + [
    $debian | split("\n")[] | select(. != "") | split(" ")
    | "pkg:deb/debian/\(.[0])@\(.[1] | @uri)?distro=debian-\(.[2])" as $purl
    | {type: "library", name: .[0], version: .[1], purl: $purl, "bom-ref": $purl}
  ] | sort_by(.purl)),
  dependencies: [
    [$root] | closure | .[] | {ref: ($packages[.] | purl), dependsOn: [linked(.) | $packages[.] | purl] | unique}
  ] | sort_by(.ref)
}
