declare module 'parse-prometheus-text-format' {
  interface Family {
    readonly name: string
    readonly help: string
    readonly type: string
    readonly metrics: readonly object[]
  }
  export default function parse (text: string): Family[] | null
}
