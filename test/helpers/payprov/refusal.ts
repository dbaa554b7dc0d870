/** Polar's errors: `{error, detail}`, and 422 with the place of each fault. */
export class Refusal extends Error {
  readonly status: number
  readonly body: object

  constructor (status: number, body: object) {
    super(JSON.stringify(body))
    this.status = status
    this.body = body
  }
}

export function refusal (status: number, error: string, detail: string): Refusal {
  return new Refusal(status, { error, detail })
}

export const notFound = (): Refusal => refusal(404, 'ResourceNotFound', 'Not found')

export function invalid (part: 'body' | 'query' | 'path' | 'header', field: string, msg: string): Refusal {
  return new Refusal(422, { error: 'RequestValidationError', detail: [{ loc: [part, ...field.split('.')], msg, type: 'value_error' }] })
}
