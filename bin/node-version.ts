/** The oldest Node.js that runs this package. It imports nothing, so that every Node.js can load it. */

const needed = { major: 20, minor: 19 } as const // as `engines` of package.json

/** The fault of a version such as `v20.19.0`; null if it is new enough. */
export function nodeFault (version: string): string | null {
  const [major = 0, minor = 0] = version.replace(/^v/, '').split('.').map(Number)
  if (major > needed.major || (major === needed.major && minor >= needed.minor)) return null
  return `Node.js ${version} is too old: install Node.js ${needed.major}.${needed.minor} or later`
}
