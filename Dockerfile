# A server in a container. For processors: docker build -t retriever .
# With CUDA:                              docker build -t retriever:gpu --build-arg VARIANT=gpu .
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
ARG VARIANT=cpu
ARG TORCH_WHEELS
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
RUN python -m venv /opt/retriever
ENV PATH=/opt/retriever/bin:$PATH
COPY pyproject.toml constraints.txt ./
COPY docker/requirements.py docker/
# Where TORCH_WHEELS names the address of torch's wheels for processors, it comes from there, at a fifth of the size.
RUN if [ -n "$TORCH_WHEELS" ]; then \
        PIP_INDEX_URL="$TORCH_WHEELS" pip install --no-deps "$(grep '^torch==' constraints.txt)"; \
    fi \
    && python docker/requirements.py "$VARIANT" > /tmp/requirements.txt \
    && pip install -c constraints.txt -r /tmp/requirements.txt
COPY README.md LICENSE NOTICE ./
COPY retriever retriever
RUN pip install --no-deps .
ENV RETRIEVER_CACHE=/var/cache/retriever
RUN retriever models fetch

FROM python:${PYTHON}-slim
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin retriever \
    && install -d -o retriever -g retriever -m 0700 /indexes /config
COPY --from=build /opt/retriever /opt/retriever
COPY --from=build --chown=retriever:retriever /var/cache/retriever /var/cache/retriever
ENV PATH=/opt/retriever/bin:$PATH \
    RETRIEVER_CACHE=/var/cache/retriever \
    RETRIEVER_CONFIG=/config \
    HF_HUB_OFFLINE=1 \
    PYTHONUNBUFFERED=1
USER retriever
WORKDIR /indexes
# /config holds the hosts that may get texts of an index.
VOLUME ["/indexes", "/config"]
EXPOSE 8600
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8600/health', timeout=4)"]
# SIGTERM ends it: requests under way are answered, jobs stop where they can. There is no start without a token.
STOPSIGNAL SIGTERM
ENTRYPOINT ["retriever"]
CMD ["serve", "--indexes", "/indexes", "--host", "0.0.0.0", "--port", "8600"]
