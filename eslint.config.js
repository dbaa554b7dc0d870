import neostandard from 'neostandard'

export default [
  ...neostandard({ ts: true, noJsx: true, ignores: ['dist', '.tap'] }),
  {
    files: ['**/*.ts'],
    rules: {
      // TypeScript checks it, and a schema and its type share one name.
      '@typescript-eslint/no-redeclare': 'off',
      '@typescript-eslint/no-explicit-any': 'error',
      '@stylistic/max-len': ['error', { code: 140, ignoreStrings: true, ignoreTemplateLiterals: true, ignoreRegExpLiterals: true, ignoreUrls: true }]
    }
  }
]
