/** The direction of imports between the rooms of src/. One rule per line of CONTRIBUTING.md "Direction". */
const level0 = '^src/(schemas/|errors\\.ts$|json\\.ts$|ids\\.ts$|folder\\.ts$)';
const rooms = {
  telemetry: [],
  secrets: [],
  outbound: ['telemetry'],
  store: [],
  identity: ['telemetry', 'secrets', 'outbound', 'store'],
  settings: ['telemetry', 'secrets', 'outbound', 'store'],
  connectors: ['telemetry', 'secrets', 'outbound', 'store', 'identity', 'settings'],
  mcp: ['telemetry', 'secrets', 'outbound', 'store', 'identity', 'settings', 'connectors'],
  llm: ['telemetry', 'secrets', 'outbound', 'store', 'identity', 'settings', 'connectors'],
  models: ['telemetry', 'secrets', 'outbound', 'store', 'identity', 'settings', 'connectors', 'llm'],
  memory: ['telemetry', 'store', 'identity', 'settings'],
  runs: ['telemetry', 'store', 'llm', 'identity', 'mcp'],
  tasks: ['telemetry', 'store', 'identity', 'settings'],
  tools: ['telemetry', 'outbound', 'store', 'identity', 'settings', 'connectors', 'mcp', 'llm', 'models'],
  agents: [
    'telemetry',
    'secrets',
    'outbound',
    'store',
    'identity',
    'settings',
    'connectors',
    'mcp',
    'llm',
    'models',
    'tools',
    'memory',
    'runs',
    'tasks',
  ],
};

const roomRules = Object.entries(rooms).map(([room, allowed]) => ({
  name: `${room}-imports-only-its-levels-below`,
  severity: 'error',
  from: { path: `^src/${room}/` },
  to: { path: '^src/', pathNot: [level0, `^src/(${[room, ...allowed].join('|')})/`] },
}));

const only = (name, packages, owners) => ({
  name,
  severity: 'error',
  from: { path: '^src/', pathNot: owners },
  to: { path: `^(${packages}|node_modules/(${packages}))(/|$)` },
});

module.exports = {
  forbidden: [
    {
      name: 'no-circular',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    {
      name: 'no-orphan-packages',
      severity: 'error',
      from: { path: '^src/' },
      to: { couldNotResolve: true, pathNot: '^keytar$' },
    },
    {
      name: 'level-0-imports-nothing',
      severity: 'error',
      from: { path: level0 },
      to: { path: '^src/', pathNot: level0 },
    },
    ...roomRules,
    {
      name: 'codecs-know-only-the-neutral-language',
      severity: 'error',
      from: { path: '^src/llm/codecs/' },
      to: { path: '^src/', pathNot: [level0, '^src/llm/(types|codec)\\.ts$', '^src/llm/codecs/'] },
    },
    {
      name: 'http-takes-values-from-level-0-and-telemetry-only',
      severity: 'error',
      from: { path: '^src/http/' },
      to: { path: '^src/', pathNot: [level0, '^src/(http|telemetry)/'], dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'cli-imports-level-0-and-config-only',
      severity: 'error',
      from: { path: '^src/cli/' },
      to: { path: '^src/', pathNot: [level0, '^src/cli/', '^src/config\\.ts$'] },
    },
    {
      name: 'only-main-imports-app',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/main\\.ts$' },
      to: { path: '^src/app\\.ts$' },
    },
    { name: 'nobody-imports-main', severity: 'error', from: { path: '^src/' }, to: { path: '^src/main\\.ts$' } },
    {
      name: 'only-the-top-reads-config',
      severity: 'error',
      from: { path: '^src/[^/]+/', pathNot: '^src/cli/' },
      to: { path: '^src/config\\.ts$', dependencyTypesNot: ['type-only'] },
    },
    only('undici-only-in-outbound', 'undici', ['^src/outbound/']),
    only('mcp-sdk-only-in-mcp', '@modelcontextprotocol/[^/]+', ['^src/mcp/']),
    only('sql-only-in-store', 'kysely|better-sqlite3(-napi)?|pg', ['^src/store/']),
    only('fastify-only-at-the-edge', 'fastify|@fastify/(?!error)[^/]+', ['^src/http/', '^src/app\\.ts$']),
  ],
  options: {
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'require', 'node', 'default'] },
  },
};
