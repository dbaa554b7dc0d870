/** Bounds of forms. */

/** Of the whole form of an upload. Sizes of files are bounded as they arrive. */
export const formLimits = {
  fieldNameSize: 100, // bytes
  fieldSize: 32_768, // bytes
  fields: 8,
  files: 2,
  parts: 10,
  headerPairs: 20,
  fileSize: Number.MAX_SAFE_INTEGER
}
