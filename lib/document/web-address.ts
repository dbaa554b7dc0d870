/** The address of a text: absolute, with http or https, and without user name and password. Null for another text. */
export function webAddress (text: string): URL | null {
  if (!URL.canParse(text)) return null
  const url = new URL(text)
  return /^https?:$/.test(url.protocol) && url.username === '' && url.password === '' ? url : null
}

/** An address to which a path can be appended. */
export function isBaseAddress (text: string): boolean {
  const url = webAddress(text)
  return url !== null && url.search === '' && url.hash === ''
}
