/** The rules of the architecture (docs/architecture.md, "Folders"), checked by `npm run lint`. */
const programs = '^(test|bench|examples|scripts)/'

/** The folders of lib/. Each imports only folders that stand before it. */
export const layers = [
  'json', 'identity', 'time', 'log', 'cache', 'concurrency', 'redis', 'chunking', 'webhooks',
  'schema', 'validation', 'plans', 'models',
  'database', 'firestore', 'backup', 'secrets', 'files', 'realtime', 'http',
  'expressions', 'connectors', 'queries', 'vectors', 'workflows',
  'document', 'compiler', 'runtime', 'configuration', 'tenant-document', 'plugin'
]

/** @type {import('dependency-cruiser').IConfiguration} */
export default {
  forbidden: [
    ...layers.slice(0, -1).map((layer, index) => ({
      name: `layer-${layer}`,
      comment: 'A folder of lib/ imports only folders that stand before it in the list above.',
      severity: 'error',
      from: { path: `^lib/${layer}/` },
      to: { path: `^lib/(${layers.slice(index + 1).join('|')})/` }
    })),
    {
      name: 'no-circle',
      comment: 'A circle of imports, of types alone too, means that two modules are one, or that a third is missing.',
      severity: 'error',
      from: {},
      to: { circular: true }
    },
    {
      name: 'lib-without-plugins',
      comment: 'The core serves every plugin and knows none; the one file that assembles the server is server.ts.',
      severity: 'error',
      from: { path: '^lib/', pathNot: '^lib/server\\.ts$' },
      to: { path: '^plugins/' }
    },
    {
      name: 'plugins-without-assembly',
      comment: 'A plugin can be registered alone: it needs neither the assembled server nor the public face.',
      severity: 'error',
      from: { path: '^plugins/' },
      to: { path: '^lib/(server|index)\\.ts$' }
    },
    {
      name: 'pure-compiler',
      comment: 'The compiler has no I/O and no Fastify, so that a tenant router can mount what it makes.',
      severity: 'error',
      from: { path: '^lib/(expressions|queries|compiler)/' },
      to: { path: '(^|/)node_modules/(fastify|@fastify|pg|@electric-sql)(/|$)' }
    },
    {
      name: 'compiler-without-database',
      comment: 'The compiler writes SQL for a catalogue that it is given; it never asks a database.',
      severity: 'error',
      from: { path: '^lib/(expressions|queries|compiler)/' },
      to: { path: '^lib/database/', pathNot: '^lib/database/(catalogue|sql|outbox)\\.ts$', dependencyTypesNot: ['type-only'] }
    },
    {
      name: 'command-on-lib',
      comment: 'The command is a user of the library: of plugins it takes what anybody can import.',
      severity: 'error',
      from: { path: '^bin/' },
      to: { path: '^plugins/', pathNot: '^plugins/([^/]+|[^/]+/index)\\.ts$' }
    },
    {
      name: 'source-without-programs',
      comment: 'What is published does not import tests, benchmarks, examples and scripts.',
      severity: 'error',
      from: { path: '^(lib|plugins|bin)/' },
      to: { path: programs }
    },
    {
      name: 'examples-as-users',
      comment: 'An example shows what a user writes: it imports the package by its name.',
      severity: 'error',
      from: { path: '^examples/' },
      to: { path: '^(lib|plugins|bin|test|bench|scripts)/', dependencyTypesNot: ['aliased'] }
    },
    {
      name: 'published-without-dev-dependencies',
      comment: 'A dev dependency is not there when the package is installed.',
      severity: 'error',
      from: { path: '^(lib|plugins|bin)/' },
      to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['npm', 'npm-peer', 'npm-optional', 'type-only'] }
    },
    {
      name: 'declared-dependencies',
      comment: 'What is imported stands in package.json.',
      severity: 'error',
      from: {},
      // An optional peer counts as missing where its meta data stand.
      to: { dependencyTypes: ['npm-no-pkg', 'npm-unknown'], dependencyTypesNot: ['npm-peer'] }
    },
    {
      name: 'resolvable',
      comment: 'The import names nothing that exists.',
      severity: 'error',
      from: { pathNot: '^examples/' },
      to: { couldNotResolve: true }
    }
  ],
  options: {
    doNotFollow: { path: ['node_modules', '^dist/'] },
    exclude: { path: '^dist/' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
      extensions: ['.ts', '.js', '.json', '.d.ts']
    },
    combinedDependencies: false
  }
}
