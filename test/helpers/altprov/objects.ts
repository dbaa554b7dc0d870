/** The objects of Stripe's API, version 2026-10-28, with the members that the tests need. Times are seconds. */

export interface Customer {
  id: string
  object: 'customer'
  created: number
  email: string | null
  metadata: Record<string, string>
  invoice_settings: { default_payment_method: string | null }
}

export interface PaymentMethod {
  id: string
  object: 'payment_method'
  type: string
}

export interface Product {
  id: string
  object: 'product'
  active: boolean
  name: string
  default_price: string | null
}

export interface Price {
  id: string
  object: 'price'
  active: boolean
  currency: string
  unit_amount: number
  product: string
  type: 'recurring' | 'one_time'
  recurring: { interval: 'month' | 'year', interval_count: number } | null
}

export interface Item {
  id: string
  object: 'subscription_item'
  current_period_start: number
  current_period_end: number
  price: Price
  quantity: number
}

export interface Subscription {
  id: string
  object: 'subscription'
  created: number
  start_date: number
  customer: string
  currency: string
  status: 'active' | 'canceled' | 'incomplete' | 'incomplete_expired' | 'past_due' | 'paused' | 'trialing' | 'unpaid'
  metadata: Record<string, string>
  cancel_at: number | null
  cancel_at_period_end: boolean
  canceled_at: number | null
  ended_at: number | null
  trial_end: number | null
  schedule: string | null
  default_payment_method: string | null
  discounts: string[]
  latest_invoice: string
  items: { object: 'list', data: [Item], has_more: false, url: string }
}

export interface Discount {
  coupon: string | null
  discount: string | null
  promotion_code: string | null
}

export interface Phase {
  start_date: number
  end_date: number
  trial_end: number | null
  proration_behavior: string
  discounts: Discount[]
  default_tax_rates: { id: string }[]
  automatic_tax: { enabled: boolean }
  items: { price: string, quantity: number, discounts: Discount[], tax_rates: { id: string }[] }[]
}

export interface Schedule {
  id: string
  object: 'subscription_schedule'
  status: 'active' | 'released'
  subscription: string | null
  released_subscription: string | null
  end_behavior: 'release' | 'cancel'
  current_phase: { start_date: number, end_date: number } | null
  phases: Phase[]
}

export interface Session {
  id: string
  object: 'checkout.session'
  mode: 'subscription'
  status: 'open' | 'complete'
  url: string | null
  customer: string
  client_reference_id: string | null
  metadata: Record<string, string>
  subscription: string | null
  amount_total: number
  currency: string
  success_url: string
  cancel_url: string | null
}

export type StoredObject = Customer | PaymentMethod | Product | Price | Subscription | Schedule | Session
