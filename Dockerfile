# One static binary in a small image.
#
#     docker build --build-arg REVISION_TIME=$(git log -1 --format=%ct) -t littoral .
#     docker run --rm -v "$PWD:/data" littoral graph whatif packages.tsv.zst
#
# io_uring is forbidden by the default seccomp profile of most engines: `littoral doctor` says so and a
# pool of threads takes its place. `--security-opt seccomp=unconfined` allows it.

FROM rust:1.95-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends musl-tools \
    && rm -rf /var/lib/apt/lists/*
RUN rustup target add "$(uname -m)-unknown-linux-musl"
WORKDIR /source
COPY . .
ARG REVISION_TIME
RUN SOURCE_DATE_EPOCH=${REVISION_TIME:-$(git log -1 --format=%ct)} scripts/release.sh /dist \
    && mkdir /unpacked \
    && tar -C /unpacked --strip-components=1 -xzf /dist/littoral-*.tar.gz

FROM debian:bookworm-slim
COPY --from=build /unpacked/littoral /usr/local/bin/littoral
COPY --from=build /unpacked/man/ /usr/local/share/man/man1/
COPY --from=build /unpacked/completions/littoral.bash /usr/share/bash-completion/completions/littoral
COPY --from=build /unpacked/LICENSE-MIT /unpacked/LICENSE-APACHE /unpacked/NOTICE /usr/share/doc/littoral/
RUN useradd --create-home --uid 1000 littoral
USER littoral
WORKDIR /data
ENTRYPOINT ["littoral"]
CMD ["--help"]
