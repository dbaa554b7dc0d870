/** The secret that signs the example's tokens. */
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * JWT_SECRET if it is set. Otherwise a development secret, created at the first start and kept in the file, so that tokens
 * outlive a restart. Production requires the setting and refuses the development secret.
 */
export function jwtSecret (file: string, env: NodeJS.ProcessEnv): string {
  const development = existsSync(file) ? readFileSync(file, 'utf8') : null
  if (env.NODE_ENV === 'production') {
    if (!env.JWT_SECRET) { throw new Error('NODE_ENV=production needs JWT_SECRET: at least 32 characters, such as the output of "openssl rand -base64 48"') }
    if (env.JWT_SECRET === development) throw new Error(`JWT_SECRET is the development secret of ${file}: make another one for production`)
    return env.JWT_SECRET
  }
  if (env.JWT_SECRET) return env.JWT_SECRET
  return development ?? createSecret(file)
}

function createSecret (file: string): string {
  const secret = randomBytes(48).toString('base64url')
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  writeFileSync(file, secret, { mode: 0o600 })
  return secret
}
