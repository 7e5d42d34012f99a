# Serve a model as a user without rights, from a file system that cannot be written:
#
#   docker build --tag rembrandt-service .
#   docker run --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
#     --publish 127.0.0.1:8000:8000 --env REMBRANDT_TOKEN=... \
#     --volume "$PWD/model:/model:ro" rembrandt-service
#
# See docs/serve.md, "Containers".

FROM python:3.13-slim AS build
COPY pyproject.toml README.md LICENSE /source/
COPY src /source/src
RUN python -m venv /opt/rembrandt
RUN /opt/rembrandt/bin/python -m pip install --no-cache-dir --disable-pip-version-check "/source[serve]"
# Compile what a service needs, so that it starts in seconds.
ENV NUMBA_CACHE_DIR=/opt/rembrandt/kernels
RUN /opt/rembrandt/bin/python -m rembrandt.serve.warming

FROM python:3.13-slim
COPY --from=build /opt/rembrandt /opt/rembrandt
COPY docker-entrypoint.sh /usr/local/bin/docker-entrypoint
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin rembrandt
ENV PATH=/opt/rembrandt/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 NUMBA_CACHE_DIR=/tmp/kernels
USER 10001
EXPOSE 8000
HEALTHCHECK --start-period=60s \
  CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/readyz', timeout=5)"]
ENTRYPOINT ["docker-entrypoint"]
CMD ["serve", "/model", "--host", "0.0.0.0"]
