/** JSON as the data of a server-sent event. A line break would end the data: a column of the type `json` keeps those between tokens. */
export function eventData (json: string): string {
  return `data: ${json.replace(/[\r\n]+/g, ' ')}\n\n`
}
