/** Days and months in UTC, in the format of the ledger. */
/** The period of amounts that are not summed over time. */
export const total = 'total'

/** `YYYY-MM-DD`. */
export function dayOf (at: number): string {
  return new Date(at).toISOString().slice(0, 10)
}

/** `YYYY-MM`, of a day. */
export function monthOf (day: string): string {
  return day.slice(0, 7)
}

/** The days of a month, up to the last one if it is given; none if the month has not begun by then. */
export function daysOf (month: string, last: string = `${month}-31`): string[] {
  const end = new Date(month)
  end.setUTCMonth(end.getUTCMonth() + 1, 0)
  const days = Array.from({ length: end.getUTCDate() }, (_none, index) => `${month}-${String(index + 1).padStart(2, '0')}`)
  return days.filter((day) => day <= last)
}
