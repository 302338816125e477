//! The charts in the hands of tools that install them from elsewhere: [`flux`] is Flux's own controllers, [`argocd`] are Argo CD's. They are built at the first time, which
//! takes minutes: `make gitops` runs these.

mod argocd;
mod flux;
