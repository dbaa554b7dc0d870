import importSort from 'eslint-plugin-simple-import-sort'
import neostandard from 'neostandard'

/** Tests of registration itself, of an embedder's app, or of several apps on one engine. All others use testApp. */
const withOwnApp = [
  'test/plugins/analytics/buffer.test.ts',
  'test/plugins/auth/index.test.ts',
  'test/plugins/auth/jwt.test.ts',
  'test/plugins/auth/make-tokens.ts',
  'test/plugins/auth/providers.test.ts',
  'test/plugins/auth/slow-bodies.test.ts',
  'test/plugins/config-routes/index.test.ts',
  'test/plugins/conventions/index.test.ts',
  'test/plugins/conventions/shared-schemas.test.ts',
  'test/plugins/cors/index.test.ts',
  'test/plugins/database/index.test.ts',
  'test/plugins/embedded.test.ts',
  'test/plugins/health/index.test.ts',
  'test/plugins/metrics/requests.test.ts',
  'test/plugins/models/event-stream.test.ts',
  'test/plugins/openapi/index.test.ts',
  'test/plugins/openapi/shared-schemas.test.ts',
  'test/plugins/openapi/swagger.test.ts',
  'test/plugins/option-errors.test.ts',
  'test/plugins/prefix.test.ts',
  'test/plugins/rate-limit/fastify.test.ts',
  'test/plugins/shape.test.ts',
  'test/plugins/stop/index.test.ts',
  'test/plugins/tools/contexts.test.ts',
  'test/plugins/tools/declarations.test.ts',
  'test/plugins/tools/schemas.test.ts',
  'test/plugins/workflows/runner.test.ts'
]

export default [
  ...neostandard({ ts: true, noJsx: true, ignores: ['dist', '.tap'] }),
  {
    files: ['**/*.ts'],
    plugins: { 'import-sort': importSort },
    rules: {
      // Node's modules, then packages, then files.
      'import-sort/imports': ['error', { groups: [['^node:', '^@?\\w', '^\\.']] }],
      // TypeScript checks it, and a schema and its type share one name.
      '@typescript-eslint/no-redeclare': 'off',
      '@typescript-eslint/no-explicit-any': 'error',
      '@stylistic/max-len': ['error', { code: 140, ignoreStrings: true, ignoreTemplateLiterals: true, ignoreRegExpLiterals: true, ignoreUrls: true }]
    }
  },
  {
    files: ['**/*.ts'],
    ignores: ['test/**'],
    rules: {
      'max-lines': ['error', 350],
      'no-restricted-syntax': ['error', {
        selector: 'CallExpression[callee.object.name="AbortSignal"][callee.property.name="any"] CallExpression[callee.property.name="timeout"]',
        message: 'A garbage collection removes this timeout: nothing keeps its signal. Use a timer that is cleared at the end.'
      }]
    }
  },
  {
    files: ['test/plugins/**/*.ts'],
    ignores: withOwnApp,
    rules: {
      'no-restricted-syntax': ['error', {
        selector: 'CallExpression[callee.name="Fastify"]',
        message: 'Use testApp of test/helpers/app.ts. A test of registration or of an embedder\'s app is listed in eslint.config.js.'
      }]
    }
  }
]
