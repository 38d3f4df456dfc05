# syntax=docker/dockerfile:1

# The everything server of the MCP project, for compose.yaml: --target everything.
FROM node:24-bookworm-slim AS everything
WORKDIR /app
RUN npm install --no-save --ignore-scripts @modelcontextprotocol/server-everything@2026.8.31
ENV PORT=3001
USER node
EXPOSE 3001
CMD ["node", "node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp"]

FROM node:24-bookworm AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY scripts ./scripts
COPY src ./src
RUN node scripts/build.mjs

FROM node:24-bookworm-slim
WORKDIR /app
ENV NODE_ENV=production \
    TENON_DATA_DIR=/var/lib/tenon/data \
    TENON_KEY_FILE=/var/lib/tenon-key/master.key
RUN install -d -o node -g node -m 0700 /var/lib/tenon /var/lib/tenon/data /var/lib/tenon-key
COPY --from=build /app/node_modules/better-sqlite3-napi/package.json /app/node_modules/better-sqlite3-napi/LICENSE ./node_modules/better-sqlite3-napi/
COPY --from=build /app/node_modules/better-sqlite3-napi/lib ./node_modules/better-sqlite3-napi/lib
COPY --from=build /app/node_modules/better-sqlite3-napi/prebuilds/linux-x64.node /app/node_modules/better-sqlite3-napi/prebuilds/linux-arm64.node ./node_modules/better-sqlite3-napi/prebuilds/
COPY package.json openapi.yaml LICENSE ./
COPY migrations ./migrations
COPY --from=build /app/dist ./dist
USER node
VOLUME ["/var/lib/tenon/data", "/var/lib/tenon-key"]
EXPOSE 9200
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["node", "-e", "const { TENON_TLS_CERT: tls, TENON_PORT: port = '9200' } = process.env; require(tls ? 'https' : 'http').get({ host: '127.0.0.1', port, path: '/healthz', rejectUnauthorized: false }, (answer) => process.exit(answer.statusCode === 200 ? 0 : 1)).on('error', () => process.exit(1))"]
ENTRYPOINT ["node", "dist/main.js"]
CMD ["serve"]
