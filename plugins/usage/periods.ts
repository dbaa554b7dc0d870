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
  if (month > monthOf(last)) return []
  const days = Array.from(
    { length: lengthOf(Number(month.slice(0, 4)), Number(month.slice(5))) },
    (_none, index) => `${month}-${String(index + 1).padStart(2, '0')}`
  )
  return days.filter((day) => day <= last)
}

function lengthOf (year: number, month: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28
  return [4, 6, 9, 11].includes(month) ? 30 : 31
}
