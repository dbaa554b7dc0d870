/**
 * The media type of a file, from its first bytes, and the headers of its download. The declared type counts only for text, which has no
 * recognizable content.
 */

/** Bytes from which the type is determined. */
export const headLength = 16_384

export const unknownType = 'application/octet-stream'

/** Types of text that an uploader may declare, besides `text/*`. */
const textTypes: ReadonlySet<string> = new Set([
  'application/json', 'application/xml', 'application/yaml', 'application/x-ndjson', 'image/svg+xml'
])

/** Types that a browser may display, since none runs scripts. Binary types are detected only by content, never by declaration. */
export const inlineTypes: ReadonlySet<string> = new Set([
  'image/png', 'image/apng', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif', 'image/bmp', 'image/heic',
  'audio/mpeg', 'audio/ogg', 'audio/wav', 'audio/flac', 'audio/mp4', 'audio/x-m4a', 'audio/aac', 'audio/opus',
  'video/mp4', 'video/webm', 'video/ogg', 'video/quicktime', 'text/plain'
])

export function headerOf (contentType: string): string {
  return contentType.startsWith('text/') ? `${contentType}; charset=utf-8` : contentType
}

/** The value of Content-Disposition (RFC 6266): the name in ASCII for old clients, and the full name. */
export function disposition (name: string, isInline: boolean): string {
  const ascii = name.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_')
  const encoded = encodeURIComponent(name).replaceAll(/['()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
  return `${isInline ? 'inline' : 'attachment'}; filename="${ascii}"; filename*=UTF-8''${encoded}`
}

/** @param head the first `headLength` bytes, or the whole file if it is shorter */
export async function contentTypeOf (head: Buffer, declared = ''): Promise<string> {
  // Loaded on demand: servers without files do not need the package.
  const { fileTypeFromBuffer } = await import('file-type')
  const found = await fileTypeFromBuffer(head)
  const said = essenceOf(declared)
  // An SVG with an XML declaration is detected as XML.
  if (found?.mime === 'application/xml' && said === 'image/svg+xml') return said
  if (found !== undefined) return essenceOf(found.mime)
  // The head may end within a character.
  return isText(said) && decodedText(head, true) !== null ? said : unknownType
}

/** A media type that an uploader may declare, with or without parameters. */
export const mediaType = /^[A-Za-z0-9!#$&^_.+-]+\/[A-Za-z0-9!#$&^_.+-]+( *;[ -~]*)?$/
const essence = /^[a-z]{1,127}\/[a-z0-9][a-z0-9.+_-]{0,126}$/

/** The type without parameters, in lower case; empty if the text is not a media type. */
export function essenceOf (type: string): string {
  const found = type.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  return essence.test(found) ? found : ''
}

/** The declared type for the store. In S3 it is a header, which cannot have every text, and no long one. */
export function storedTypeOf (declared = ''): string {
  return essenceOf(declared) || unknownType
}

export function isText (type: string): boolean {
  return type.startsWith('text/') || textTypes.has(type)
}

/** null if the bytes are not text. */
export function decodedText (bytes: Buffer, isCut = false): string | null {
  if (bytes.includes(0)) return null
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes, { stream: isCut })
  } catch {
    return null
  }
}
