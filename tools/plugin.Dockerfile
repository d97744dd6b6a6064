# An image of the device plugins, for a cluster or for kind; docs/plugins.md tells how it is built and named. Both bases
# need Python 3.11 or newer at the same path, the first one its venv and a C compiler too.
ARG BUILD_BASE=python:3.13
ARG BASE=python:3.13-slim

FROM ${BUILD_BASE} AS build
WORKDIR /source
COPY . .
RUN python3 -m venv /opt/simkubelet && /opt/simkubelet/bin/pip install --no-cache-dir .

FROM ${BASE}
COPY --from=build /opt/simkubelet /opt/simkubelet
ENV PATH=/opt/simkubelet/bin:$PATH PYTHONUNBUFFERED=1
# Root, as in the originals' images: the kubelet's folder of sockets is root's.
ENTRYPOINT ["simkubelet", "plugin"]
