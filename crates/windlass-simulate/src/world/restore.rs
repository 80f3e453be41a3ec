//! A world that goes on from objects that are there already.

use serde_json::Value;
use tokio::task::yield_now;

use super::{World, WorldError, WorldOptions};

/// How often all other tasks get their turn, so that those that were told to end do. No time passes.
const TURNS: usize = 64;

impl World {
    /// A world with these objects, as they are: their statuses, uids and ages stay. Manifests, such as namespaces, are applied
    /// before. The in-memory provider has built the workload clusters that its objects tell of. Nothing acts yet: see
    /// [`World::resume`].
    ///
    /// # Errors
    ///
    /// When a manifest is refused, or when an object is of a kind that is not defined.
    pub async fn restored(
        options: WorldOptions,
        manifests: &[Value],
        objects: &[Value],
    ) -> Result<Self, WorldError> {
        let world = Self::empty(options).await?;
        for crd in &world.options.crds {
            world.define(crd).await?;
        }
        world.apply_objects(manifests).await?;
        let imported = world.server.import(objects).await;
        imported.map_err(|failure| WorldError::Refused {
            what: "restore the objects".to_owned(),
            reason: failure.to_string(),
        })?;
        world.play_prelude().await;
        Ok(world)
    }

    /// Starts everything that acts, as a new process would. Does nothing if it acts already.
    pub fn resume(&mut self) {
        if self.running.is_none() {
            self.start();
        }
    }

    /// Starts everything that acts with a seed of its own, as a new process would.
    pub fn resume_with(&mut self, seed: u64) {
        self.options.seed = seed;
        self.starts = 0;
        self.resume();
    }

    /// Lets the provider put the Nodes back that there were, and extensions be discovered. To a controller that looks before,
    /// they would look as if they had gone.
    async fn play_prelude(&self) {
        let Some(prelude) = self.options.prelude.clone() else { return };
        let running = self.started(&prelude);
        running.manager().clone().idle().await;
        drop(running);
        for _ in 0..TURNS {
            yield_now().await;
        }
    }
}
