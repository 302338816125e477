# The operator's image: its binary, the libraries that this loads, the authorities of the web, and nothing else.
# docs/image.md says how it is built, also where there is no image registry.

# Debian, or what is made of it, with gcc, libc6-dev, ca-certificates and the Rust of rust-toolchain.toml. Renovate moves the digests: what the
# image has of Debian comes from here.
ARG BUILDER=docker.io/library/rust:1.95.0-slim-trixie@sha256:e14e87345b4d5964ddcc3491d27ee046a0f23820f340c3c1e24da6880141f7c0
# Debian of the builder's release or a later one: its C library has to know what the binary was linked with.
ARG AGENTS_BASE=docker.io/library/debian:trixie-slim@sha256:a29215f6a35e51e22adffa17f89e9d2ef06214e64a2bad10d765c46aea49f11f

FROM ${BUILDER} AS tools
ENV CARGO_HOME=/cargo
# They write down which crates are in the binary, and read it from there.
RUN --mount=type=cache,target=/cargo \
    cargo install --locked --root /tools cargo-auditable@0.7.7 auditable2cdx@0.1.0

FROM ${BUILDER} AS build
ENV CARGO_HOME=/cargo
COPY --from=tools /tools /tools
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/cargo \
    PATH=/tools/bin:$PATH image/contents /out
# A step of its own: another commit compiles nothing again. Its file keeps the labels below true: buildah and podman look at what is copied
# to know whether what they remember of a stage will do, and not at the arguments of a label.
ARG VERSION=unknown
ARG REVISION=unknown
ARG SOURCE_DATE_EPOCH=0
RUN date --utc --date "@$SOURCE_DATE_EPOCH" "+$VERSION $REVISION %FT%TZ" > /out/VERSION \
    && find /out -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +

# For driver fenceAgent, which runs agents in /usr/sbin: a Debian with a shell, Python, and the packages of the agents that it runs.
FROM ${AGENTS_BASE} AS agents
ARG AGENTS="fence-agents-ipmilan fence-agents-eaton-snmp"
# The user has a name, as programs may ask for it. And no program has more rights than who calls it.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ${AGENTS} \
    && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* \
    && echo 'fencing:x:65532:65532::/:/usr/sbin/nologin' >> /etc/passwd \
    && echo 'fencing:x:65532:' >> /etc/group \
    && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
COPY --from=build /out/node-fencing-operator /out/node-fencing-operator.cdx.json /out/VERSION /
COPY --from=build /out/licenses /licenses
COPY --from=build /out/etc/ssl /etc/ssl
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=unknown
ARG BASE_NAME=
ARG BASE_DIGEST=
LABEL org.opencontainers.image.title="node-fencing-operator with fence agents" \
      org.opencontainers.image.description="Proves that failed Kubernetes nodes are down, and only then lets their pods and volumes move" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/node-fencing-operator/node-fencing-operator" \
      org.opencontainers.image.url="https://github.com/node-fencing-operator/node-fencing-operator" \
      org.opencontainers.image.documentation="https://github.com/node-fencing-operator/node-fencing-operator/tree/main/docs" \
      org.opencontainers.image.vendor="node-fencing-operator" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${BASE_NAME}" \
      org.opencontainers.image.base.digest="${BASE_DIGEST}"
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/node-fencing-operator"]

# The last one, which is built where none is named.
FROM scratch AS operator
COPY --from=build /out /
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=unknown
ARG BASE_NAME=
ARG BASE_DIGEST=
LABEL org.opencontainers.image.title="node-fencing-operator" \
      org.opencontainers.image.description="Proves that failed Kubernetes nodes are down, and only then lets their pods and volumes move" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/node-fencing-operator/node-fencing-operator" \
      org.opencontainers.image.url="https://github.com/node-fencing-operator/node-fencing-operator" \
      org.opencontainers.image.documentation="https://github.com/node-fencing-operator/node-fencing-operator/tree/main/docs" \
      org.opencontainers.image.vendor="node-fencing-operator" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${BASE_NAME}" \
      org.opencontainers.image.base.digest="${BASE_DIGEST}"
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/node-fencing-operator"]
