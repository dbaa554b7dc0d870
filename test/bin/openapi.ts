/** The validator of OpenAPI documents. */
import { Validator } from '@seriousme/openapi-schema-validator'

/** Throws with the faults. */
export async function validate (document: object): Promise<boolean> {
  const { valid, errors } = await new Validator().validate({ ...document })
  if (!valid) throw new Error(JSON.stringify(errors))
  return valid
}
