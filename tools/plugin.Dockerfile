# An image of the device plugins, for a cluster or for kind; docs/plugins.md tells how it is built and named.
FROM python:3.13 AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.13-slim
RUN --mount=from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels simkubelet
ENV PYTHONUNBUFFERED=1
# Root, as in the originals' images: the kubelet's folder of sockets is root's.
ENTRYPOINT ["simkubelet", "plugin"]
