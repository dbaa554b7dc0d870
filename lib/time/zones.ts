/** The clocks of time zones. */

/** Throws a RangeError for an unknown zone. */
export function zoneFormat (timeZone: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat('en-US', {
    timeZone,
    calendar: 'iso8601',
    numberingSystem: 'latn',
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric'
  })
}

/** A date whose UTC fields have the time of the format's zone. */
export function inZone (date: Date, format: Intl.DateTimeFormat): Date {
  const found = new Map(format.formatToParts(date).map(({ type, value }) => [type, Number(value)]))
  const local = new Date(0)
  local.setUTCFullYear(found.get('year') ?? NaN, (found.get('month') ?? NaN) - 1, found.get('day'))
  local.setUTCHours(found.get('hour') ?? NaN, found.get('minute'), found.get('second'), date.getUTCMilliseconds())
  return local
}
