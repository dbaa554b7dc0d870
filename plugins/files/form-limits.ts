/** Limits of forms. */

/** Limits of a whole upload form. Sizes of files are limited as they arrive. */
export const formLimits = {
  fieldNameSize: 100, // bytes
  fieldSize: 32_768, // bytes
  fields: 8,
  files: 2,
  parts: 10,
  headerPairs: 20,
  fileSize: Number.MAX_SAFE_INTEGER
}
